"""Work on several processes or machines by Dask: `--cluster`. Dask is imported where a cluster is started.

    options = read_cluster("slurm")                        # configuration.py: conf/cluster/slurm.yaml, checked
    with started(options) as client:                       # backends.py: Dask's cluster of that kind
        pool = Pool(client, options, Setup(load, files))   # pool.py: map_pieces over its workers, in order
        for results in pool.map_pieces(function, pieces):  # worker.py: what a worker does
            ...

A piece of work is a list of items, such as the utterances of a batch. Workers read data and model themselves, from a
file system that all machines share; only names and results travel.
"""
