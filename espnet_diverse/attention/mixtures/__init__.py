"""The mixture of Gaussians of SMA and SDMA: posteriors, noise, auxiliary losses, statistics."""
