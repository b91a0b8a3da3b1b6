"""Linear algebra and statistics that several rooms share: tensors in, tensors out."""
