"""What an evolution had found before: points are kept, thinned out, and repeated after a resume."""

import numpy as np

from metaevo.runs import history


def tree(value):
    return {"a": np.full(3, value, np.float32), "b": [np.float32(value)]}


def test_points_are_read_back_in_order(tmp_path):
    assert history.read(tmp_path) is None
    for generation in (0, 5, 10):
        history.record(tmp_path, generation, tree(generation))
    found = history.read(tmp_path)
    assert found.generations.tolist() == [0, 5, 10]
    np.testing.assert_array_equal(found.at(1)["a"], [5, 5, 5])
    assert found.at(2)["b"][0] == 10
    history.record(tmp_path, 8, tree(-8))  # a resumed run repeats points
    assert history.read(tmp_path).generations.tolist() == [0, 5, 8]
    history.record(tmp_path, 0, tree(1.0))  # a new run in the directory
    assert history.read(tmp_path).generations.tolist() == [0]


def test_a_long_evolution_keeps_few_points_and_the_first_and_the_last(tmp_path):
    for generation in range(200):
        history.record(tmp_path, generation, tree(generation))
    found = history.read(tmp_path)
    assert len(found.generations) <= history.MOST + 1
    assert found.generations[0] == 0
    assert found.generations[-1] == 199
    np.testing.assert_array_equal(found.meta_params["a"][:, 0], found.generations)


def test_large_and_unusual_meta_parameters_are_not_recorded(tmp_path):
    history.record(tmp_path, 0, {"a": np.zeros(history.LARGEST + 1)})
    history.record(tmp_path, 0, {"a": object})
    assert history.read(tmp_path) is None
