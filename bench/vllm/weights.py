"""A model's weights, drawn on the GPU that holds them: none are downloaded."""

RANK_SEEDS = 1_000_000  # between two ranks' seeds: each rank holds other parts of the matrices


def generator(seed: int, rank: int):
    import torch

    return torch.Generator(device="cuda").manual_seed(seed + RANK_SEEDS * rank)


def draw_weights(model, std: float, rank: int = 0) -> int:
    """Draws N(0, std) for matrices, the same in all engines, and sets norms to 1: vLLM's dummy weights of +-1e-3 make
    all keys weigh the same, so that an error in attention would not show. Returns the number of weights."""
    source = generator(1, rank)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            parameter.data.normal_(0, std, generator=source)
        else:
            parameter.data.fill_(1)
    return count_weights(model)


def count_weights(model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def draw(worker, std: float) -> int:
    """draw_weights for the rank of a worker. A model that is split over ranks is another one than on one GPU."""
    return draw_weights(worker.model_runner.get_model(), std, worker.rank)


def count(worker) -> int:
    return count_weights(worker.model_runner.get_model())


def reload_drawn(worker, std: float, number: int, change: float) -> None:
    """Loads draw_weights' weights plus N(0, std * change) drawn for this number. All are drawn anew, because a sleep of
    level 2 keeps none."""
    import torch

    model = worker.model_runner.get_model()
    base, changes = (generator(seed, worker.rank) for seed in (1, 1000 + number))

    def drawn():
        for name, parameter in model.named_parameters():
            made = torch.ones_like(parameter.data)
            if parameter.dim() >= 2:
                made.normal_(0, std, generator=base)
                made += torch.empty_like(made).normal_(0, std * change, generator=changes)
            yield name, made

    with torch.no_grad():  # the loader copies into parameters, and those of norms require gradients
        worker.reload_weights(weights_iterator=drawn(), is_checkpoint_format=False)
