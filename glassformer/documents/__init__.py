"""Documents: files of translators and of programs, translated segment by segment, with nothing else changed."""

from glassformer.documents.glossary import Glossary
from glassformer.documents.memory import Memory
from glassformer.documents.checklist import DocumentReport
from glassformer.documents.translate_file import FileTranslator
from glassformer.text.formats import FormatOptions

__all__ = ["DocumentReport", "FileTranslator", "FormatOptions", "Glossary", "Memory"]
