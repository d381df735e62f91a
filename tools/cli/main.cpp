#include "cli/program.hpp"

int main(int argc, char** argv) {
  return trunkline::cli::run_program(argc, argv);
}
