"""Models of other programs in and out: Hugging Face's transformers, Marian, CTranslate2."""
