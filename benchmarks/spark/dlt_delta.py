"""The bench's records into a Delta table with dlt, in the environment that has it: `dlt_delta.py BASE_URL FOLDER`."""

import sys
from pathlib import Path

import dlt
from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.paginators import PageNumberPaginator

base, folder = sys.argv[1], Path(sys.argv[2]).resolve()
pages = PageNumberPaginator(base_page=1, page_param="page", total_path=None, has_more_path="has_more")
client = RESTClient(base_url=f"{base}/")
source = client.paginate("items", params={"per_page": 1000}, paginator=pages, data_selector="data")
target = dlt.destinations.filesystem(bucket_url=f"file://{folder}/out")
pipeline = dlt.pipeline("bench", destination=target, dataset_name="bench", pipelines_dir=str(folder / "pipelines"))
items = dlt.resource(source, name="items", primary_key="id", table_format="delta")
pipeline.run(items, loader_file_format="parquet")
