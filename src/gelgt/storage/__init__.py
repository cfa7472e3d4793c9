"""Object storage: S3, Google Cloud Storage and Azure Blob Storage behind one small seam.

    place.py      addresses (s3://bucket/prefix), and pyarrow's file system for each of them
    failures.py   what a provider says, as errors that name the object; which of it is worth a retry
    requests.py   bounded, and tried again with growing pauses
    reader.py     an object that is read by ranges
    store.py      list, read ranges, write whole

pyarrow's own file systems are in its wheels for all three providers, read ranges without holding
the interpreter lock, and take credentials from each provider's usual places; fsspec's would be a
further package each, with an event loop.
"""

from gelgt.storage.failures import is_lasting, storage_error
from gelgt.storage.place import Place, is_storage, safe_place
from gelgt.storage.reader import Object, ObjectReader, changed
from gelgt.storage.store import Store

__all__ = [
    "Object",
    "ObjectReader",
    "Place",
    "Store",
    "changed",
    "is_lasting",
    "is_storage",
    "safe_place",
    "storage_error",
]
