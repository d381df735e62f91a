// Runs a fuzz target's entry point without a fuzzer: over its corpus, and over made-up inputs. It crashes or throws on
// a bug.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "support/test_scale.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<Bytes> read_corpus() {
  std::vector<Bytes> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(TRUNKLINE_FUZZ_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

TEST(FuzzReplay, CorpusAndItsTruncations) {
  const std::vector<Bytes> corpus = read_corpus();
  ASSERT_FALSE(corpus.empty()) << TRUNKLINE_FUZZ_CORPUS;
  for (const Bytes& input : corpus) {
    for (std::size_t size = 0; size <= input.size(); ++size) {
      // An exact copy, so that AddressSanitizer sees a read past the end.
      const Bytes prefix(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_NO_THROW(LLVMFuzzerTestOneInput(prefix.data(), prefix.size()));
    }
  }
}

TEST(FuzzReplay, MutatedCorpus) {
  const std::vector<Bytes> corpus = read_corpus();
  ASSERT_FALSE(corpus.empty()) << TRUNKLINE_FUZZ_CORPUS;
  for (int seed = 1; seed <= trunkline::testing::scaled(4000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    Bytes input = corpus[random() % corpus.size()];
    for (std::uint64_t change = 0; change < 1 + random() % 8 && !input.empty(); ++change) {
      input[random() % input.size()] = static_cast<std::uint8_t>(random());
    }
    ASSERT_NO_THROW(LLVMFuzzerTestOneInput(input.data(), input.size()));
  }
}

TEST(FuzzReplay, RandomBytes) {
  for (int seed = 1; seed <= trunkline::testing::scaled(4000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    Bytes input(random() % 200);
    for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random());
    ASSERT_NO_THROW(LLVMFuzzerTestOneInput(input.data(), input.size()));
  }
}

}  // namespace
