"""Configurations of clusters: the shared ones are valid, and each fault is one line with file and line."""

import sys

import pytest

from espnet_diverse.cluster.configuration import SHARED, read_cluster
from espnet_diverse.errors import ConfigError


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(text):
        (tmp_path / "site.yaml").write_text(text)
        return "site.yaml"

    return written


def test_a_file_of_the_working_folder_does_not_take_the_place_of_a_shared_one(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "local.yaml").write_text("kind: local\nworkers: 7\n")
    assert read_cluster("local").workers != 7 and "is used instead of" in caplog.text
    assert read_cluster("./local.yaml").workers == 7


@pytest.mark.parametrize("path", sorted(SHARED.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_shared_configurations_are_valid_and_named_after_their_kind(path):
    assert read_cluster(path.stem) == read_cluster(str(path))
    assert read_cluster(path.stem).kind == path.stem


def test_a_site_changes_some_keys_of_a_shared_configuration(write):
    options = read_cluster("slurm,./" + write("queue: long\nworkers: 32"))
    assert (options.kind, options.queue, options.workers, options.memory) == ("slurm", "long", 32, "4GB")
    assert options.python == sys.executable and options.retries == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: slrm", "^site.yaml:1: kind of cluster 'slrm' is unknown; known: local slurm scheduler HTCondorCl"),
        ("workers: 2", "^site.yaml: kind of cluster None is unknown; known: local "),
        ("kind: [local]", r"^site.yaml:1: kind of cluster \['local'\] is unknown"),
        ("kind: slurm\nquee: long", "^site.yaml:2: unknown option 'quee'; did you mean 'queue'\\?$"),
        ("kind: local\nwalltime: '1'", "^site.yaml:2: unknown option 'walltime'; "),
        ("kind: local\nworkers: 0", "^site.yaml:2: workers must be a whole number, 1 or more, but is 0$"),
        ("kind: local\nworkers: true", "^site.yaml:2: workers must be a whole number, 1 or more, but is True$"),
        ("kind: slurm\nwalltime: 86400", "^site.yaml:2: walltime must be a text, in quotes .* but is 86400"),
        ("kind: slurm\nmemory: 4 gigs", "^site.yaml:2: memory must be a number and a unit.* but is '4 gigs'$"),
        ("kind: slurm\nqueue: ' '", "^site.yaml:2: queue must be a text.* but is ' '"),
        ("kind: slurm\ndirectives: --x", "^site.yaml:2: directives must be a list of texts, but is '--x'$"),
        ("kind: os.system", "^site.yaml:1: kind of cluster 'os.system' is unknown"),
        ("kind: PBSCluster\noptions: me", "^site.yaml:2: options must be a mapping, but is 'me'$"),
        ("kind: PBSCluster\nqueue: x", "^site.yaml:2: unknown option 'queue'"),
        ("kind: scheduler", "^site.yaml:1: a cluster of kind scheduler needs address; add it$"),
        ("kind: scheduler\naddress: 5", "^site.yaml:2: address must be a text, but is 5$"),
        ("kind: local\nkind: slurm", "^site.yaml:2: key 'kind' is already on line 1; keep one$"),
    ],
)
def test_a_fault_is_named_with_file_and_line(write, text, said):
    with pytest.raises(ConfigError, match=said):
        read_cluster(write(text))


def test_a_time_needs_no_quotes(write):
    assert read_cluster(write("kind: slurm\nwalltime: 24:00:00")).walltime == "24:00:00"


def test_an_unknown_name_lists_the_shared_ones(write):
    with pytest.raises(ConfigError, match=r"'condor' is not found in .*; . has: local slurm$"):
        read_cluster("condor")
