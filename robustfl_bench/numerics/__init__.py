"""Linear algebra and statistics that several subpackages share: tensors in, tensors out."""
