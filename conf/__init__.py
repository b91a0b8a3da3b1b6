"""The configuration of a run; README.md explains it. With this file Hydra finds the folder as a module."""
