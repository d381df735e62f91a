#include "codec_shapes.hpp"

#include "base/check.hpp"

namespace trunkline {
namespace {

// `levels` levels with `children` under each node, of `tokens` tokens a node.
std::string even_tree(int children, int levels, int tokens) {
  std::string nodes;
  std::string lengths;
  int width = 1;
  for (int level = 0; level < levels; ++level, width *= children) {
    nodes += concat(level == 0 ? "" : ",", width);
    lengths += concat(level == 0 ? "" : ",", tokens);
  }
  return nodes + "/" + lengths;
}

}  // namespace

std::vector<CodecShape> codec_shapes() {
  std::vector<CodecShape> result;
  for (const int leaf : {128, 256, 512, 1024, 2048})
    result.push_back({concat("vary-seq, leaves of ", leaf), concat("1,8/4096,", leaf)});
  for (const int batch : {4, 8, 16, 32, 64})
    result.push_back({concat("vary-batch, ", batch), concat("1,", batch, "/2048,2048")});
  for (const int depth : {2, 3, 4, 5, 6})
    result.push_back({concat("vary-depth, binary, ", depth), even_tree(2, depth, 1024)});
  for (const int percent : {5, 10, 20, 40, 60, 80}) {
    const int shared = 120000 / 100 * percent;
    result.push_back({concat("vary-ratio, ", percent, " % shared"), concat("1,16/", shared, ",", 120000 - shared)});
  }
  for (const int children : {2, 3, 4, 5})
    result.push_back({concat("vary-shape, ", children, " children, depth 3"), even_tree(children, 3, 1024)});
  result.push_back({"vary-shape, chain", even_tree(1, 3, 1024)});
  return result;
}

}  // namespace trunkline
