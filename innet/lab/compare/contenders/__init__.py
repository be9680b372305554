"""What runs inside a worker and is measured: one module for each library.

``contender`` says what each must provide.
"""
