"""Shapes of public manifests, each with the project that it is modelled on."""
