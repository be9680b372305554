"""The boundary to the C++ libraries: bytes and buffers in, completions out.

``_core`` is the compiled module. Nothing but the wrappers that need it imports from here.
"""
