// Beam search, and verification of drafts.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "capi/convert.hpp"
#include "capi/structs.hpp"
#include "capi/tree_objects.hpp"

using namespace trunkline;
using namespace trunkline::capi;

trunkline_status trunkline_beam_search_create(const trunkline_beam_search_options* options,
                                              trunkline_beam_search** search) {
  return guard([&] {
    need(search, "search");
    const trunkline_beam_search_options from = read_struct(options, "options");
    check_choice(from.early_stopping, TRUNKLINE_STOP_HEURISTIC, TRUNKLINE_STOP_NEVER, "options.early_stopping");
    const auto end_tokens = list_of(from.end_tokens, from.end_token_count, "options.end_tokens");
    BeamSearchOptions with;
    with.beams = from.beams;
    with.max_new_tokens = from.max_new_tokens;
    with.end_tokens.assign(end_tokens.begin(), end_tokens.end());
    with.length_penalty = from.length_penalty;
    with.early_stopping = static_cast<EarlyStopping>(from.early_stopping);
    *search = static_cast<trunkline_beam_search*>(publish(std::make_shared<BeamSearchObject>(std::move(with))));
  });
}

trunkline_status trunkline_beam_search_decide(trunkline_beam_search* search, trunkline_sequence_tree* tree,
                                              const trunkline_node* leaves, int32_t count,
                                              const trunkline_logits* logits, trunkline_decisions* decisions) {
  return guard([&] {
    checked_size(decisions, "decisions");
    const auto held = exclusive<BeamSearchObject>(search);
    const auto on = exclusive<SequenceTreeObject>(tree);
    held->decisions.clear();
    held->search.decide(on->tree, nodes_of(leaves, count, "leaves"), view_of(logits), held->decisions);
    held->continuations.clear();
    for (const Continuation& one : held->decisions.continuations) {
      held->continuations.push_back(
          {.leaf = one.leaf, .token = one.token, .score = one.score, .finished = one.finished ? 1 : 0, .reserved = 0});
    }
    trunkline_decisions view{};
    view.continuations = held->continuations.data();
    view.continuation_count = static_cast<std::int64_t>(held->continuations.size());
    view.prune = held->decisions.prune.data();
    view.prune_count = static_cast<std::int64_t>(held->decisions.prune.size());
    view.stop = held->decisions.stop ? 1 : 0;
    write_struct(decisions, "decisions", view);
  });
}

trunkline_status trunkline_beam_search_results(const trunkline_beam_search* search, const trunkline_sequence_tree* tree,
                                               trunkline_beam_result* results, int32_t capacity, int32_t* count) {
  return guard([&] {
    need(count, "count");
    const auto held = shared<BeamSearchObject>(search);
    const std::vector<BeamResult> found = held->search.results(shared<SequenceTreeObject>(tree)->tree);
    if (capacity < 0 || found.size() > static_cast<std::size_t>(capacity)) {
      fail(ErrorCode::kInvalidArgument, "capacity is ", capacity, "; there are ", found.size(), " results");
    }
    if (!found.empty()) need(results, "results");
    std::ranges::transform(found, results, [](const BeamResult& one) {
      return trunkline_beam_result{.node = node_of(one.node), .score = one.score};
    });
    *count = static_cast<std::int32_t>(found.size());
  });
}

trunkline_status trunkline_beam_search_destroy(trunkline_beam_search* search) {
  return destroy<BeamSearchObject>(search);
}

trunkline_status trunkline_sampler_create(uint64_t seed, double temperature, trunkline_sampler** sampler) {
  return guard([&] {
    need(sampler, "sampler");
    *sampler = static_cast<trunkline_sampler*>(publish(std::make_shared<SamplerObject>(seed, temperature)));
  });
}

trunkline_status trunkline_sampler_sample(trunkline_sampler* sampler, const float* logits, int32_t vocabulary,
                                          int32_t* token) {
  return guard([&] {
    need(token, "token");
    const auto held = exclusive<SamplerObject>(sampler);
    *token = held->sampler.sample(list_of(logits, vocabulary, "logits"));
  });
}

trunkline_status trunkline_sampler_destroy(trunkline_sampler* sampler) {
  return destroy<SamplerObject>(sampler);
}

trunkline_status trunkline_verify_drafts(trunkline_sampler* sampler, const trunkline_drafts* drafts,
                                         const trunkline_logits* logits, int32_t* accepted,
                                         trunkline_verified* verified) {
  return guard([&] {
    const trunkline_drafts from = read_struct(drafts, "drafts");
    check_reserved(from.reserved, "drafts.reserved");
    checked_size(verified, "verified");
    if (from.count > 0) need(accepted, "accepted");
    const DraftTree tree{list_of(from.tokens, from.count, "drafts.tokens"),
                         list_of(from.parents, from.count, "drafts.parents")};
    const LogitsView view = view_of(logits);
    Verified found;
    if (sampler == nullptr) {
      found = verify_greedy(tree, view);
    } else {
      std::span<const float> probabilities;
      if (from.probabilities != nullptr) {
        const std::int64_t numbers = (std::int64_t{from.count} + 1) * std::max(view.vocabulary, 0);
        probabilities = {from.probabilities, static_cast<std::size_t>(numbers)};
      }
      found = exclusive<SamplerObject>(sampler)->sampler.verify(tree, view, probabilities);
    }
    std::ranges::copy(found.accepted, accepted);
    trunkline_verified out{};
    out.accepted_count = static_cast<std::int32_t>(found.accepted.size());
    out.next_token = found.next_token;
    out.log_probability = found.log_probability;
    write_struct(verified, "verified", out);
  });
}
