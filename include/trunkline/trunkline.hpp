// Everything an engine author needs: describe a batch, find its forest, plan, ask for the workspace, run.
#pragma once

#include "trunkline/attention.hpp"                  // IWYU pragma: export
#include "trunkline/batch.hpp"                      // IWYU pragma: export
#include "trunkline/cuda.hpp"                       // IWYU pragma: export
#include "trunkline/cuda_planner.hpp"               // IWYU pragma: export
#include "trunkline/error.hpp"                      // IWYU pragma: export
#include "trunkline/forest.hpp"                     // IWYU pragma: export
#include "trunkline/kv/kv_manager.hpp"              // IWYU pragma: export
#include "trunkline/live.hpp"                       // IWYU pragma: export
#include "trunkline/machine.hpp"                    // IWYU pragma: export
#include "trunkline/plan.hpp"                       // IWYU pragma: export
#include "trunkline/profile_file.hpp"               // IWYU pragma: export
#include "trunkline/runtime/beam_search.hpp"        // IWYU pragma: export
#include "trunkline/runtime/branch_controller.hpp"  // IWYU pragma: export
#include "trunkline/runtime/kv_store.hpp"           // IWYU pragma: export
#include "trunkline/runtime/sequence_tree.hpp"      // IWYU pragma: export
#include "trunkline/runtime/speculation.hpp"        // IWYU pragma: export
#include "trunkline/runtime/unpaged_kv.hpp"         // IWYU pragma: export
#include "trunkline/threads.hpp"                    // IWYU pragma: export
#include "trunkline/tiles.hpp"                      // IWYU pragma: export
#include "trunkline/types.hpp"                      // IWYU pragma: export
