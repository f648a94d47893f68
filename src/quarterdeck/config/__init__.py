"""Where things live on disk, and the layered configuration.

``places`` says which directories are ours; ``schema`` which settings exist; ``load`` puts the
layers together (``layers`` merges, ``check`` holds a layer against the schema, ``environment``
reads variables, ``workspace`` finds the project); ``trust`` remembers which directories the user
trusts; ``reference`` describes every setting; ``display`` prepares values for a person's eyes.

Importing this package reads nothing and creates nothing.
"""
