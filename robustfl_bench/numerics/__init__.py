"""Tensors in, tensors out: the matrix of updates with its lazy geometry, selection and spectra, and in ``network``
the gradients of many clients at once. No configuration, no disk, no clock."""
