"""Run checks on a cluster of dask.distributed that has gradcli and the project."""

from collections.abc import Callable, Iterable, Iterator

from gradcli.errors import BadOption, install_command

_PATIENCE = "10s"  # to reach the scheduler


def run(url: str, function: Callable[[str], str], texts: Iterable[str]) -> Iterator[tuple[int, str | None]]:
    """Yield the number of each job and its answer, as they come; None for a job whose workers were lost.

    A job whose worker is lost is run again by another one, as often as the cluster's `allowed-failures` says.

    Raises  BadOption if dask is not installed, or the cluster cannot be reached.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise BadOption("dask.distributed is not installed", do=install_command("dask")) from None
    address = url.replace("dask://", "tcp://", 1)
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except OSError as error:
        raise BadOption(f"no Dask scheduler answers at {url}: {error}", do="start one: dask scheduler") from None
    with client:
        futures = {client.submit(function, text, pure=False): number for number, text in enumerate(texts)}
        for future in as_completed(futures, loop=client.loop):
            yield futures[future], future.result() if future.status == "finished" else None
