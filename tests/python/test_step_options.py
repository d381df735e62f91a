"""The options that plan(), plan_csr(), plan_token_level() and prepare() share."""

import inspect
from dataclasses import asdict, fields

import pytest
import trunkline
from trunkline._step_options import StepArguments, StepOptions

ATTENTION = trunkline.DecodeAttention(8, 2, 64, 1, dtype="float32")
METHODS = {"plan": 2, "plan_csr": 3, "plan_token_level": 3, "prepare": 2}  # and how many arrays each takes


def test_type_checkers_see_the_options_as_they_are():
    seen = [(name, found.__forward_arg__) for name, found in StepArguments.__annotations__.items()]
    assert seen == [(field.name, field.type) for field in fields(StepOptions)]


@pytest.mark.parametrize(("name", "arrays"), METHODS.items())
def test_signatures_list_all_options(name, arrays):
    parameters = list(inspect.signature(getattr(trunkline.DecodeAttention, name)).parameters.values())[1:]
    assert [parameter.kind.name for parameter in parameters[:arrays]] == ["POSITIONAL_OR_KEYWORD"] * arrays
    options = {parameter.name: parameter.default for parameter in parameters[arrays:]}
    assert options == asdict(StepOptions())
    assert {parameter.kind.name for parameter in parameters[arrays:]} == {"KEYWORD_ONLY"}
    assert parameters[-1].annotation == "int | None"


@pytest.mark.parametrize(("name", "arrays"), METHODS.items())
def test_other_names_are_refused(name, arrays):
    with pytest.raises(trunkline.ArgumentTypeError) as raised:
        getattr(ATTENTION, name)(*[[]] * arrays, num_page=3)
    assert str(raised.value) == f"num_page is no argument; expected: {', '.join(asdict(StepOptions()))}"


@pytest.mark.parametrize(("name", "arrays"), METHODS.items())
@pytest.mark.parametrize(
    ("option", "text"),
    [
        (dict(check_ids="yes"), "check_ids is 'yes'; expected: True or False"),
        (dict(forest=3), "forest is 3; expected: a Forest"),
        (dict(device_tables=3), "device_tables is 3; expected: a DeviceTables"),
        (dict(stream=1.5), "stream is 1.5; expected: an address as an int, or None"),
    ],
)
def test_types_are_checked_wherever_they_are_given(name, arrays, option, text):
    with pytest.raises(trunkline.ArgumentTypeError) as raised:
        getattr(ATTENTION, name)(*[[]] * arrays, **option)
    assert str(raised.value) == text


def test_options_that_are_not_given_have_their_defaults():
    assert StepOptions.of({"num_pages": 3}) == StepOptions(num_pages=3)
    assert StepOptions.of({}) == StepOptions()
