weft_test(run_parts
  SOURCES unit/train/bad_steps_test.cpp unit/train/changes_since_test.cpp unit/train/crowded_host_test.cpp unit/train/data_files_test.cpp unit/train/ending_test.cpp unit/compare/compare_test.cpp unit/report/flops_test.cpp unit/train/generate_test.cpp unit/train/learning_rate_test.cpp unit/runtime/memory_usage_test.cpp
          unit/report/metrics_test.cpp unit/report/progress_test.cpp unit/report/rank_times_test.cpp unit/report/report_test.cpp unit/train/run_data_test.cpp unit/train/sampling_test.cpp unit/compile/programs_test.cpp unit/compile/scheduling_test.cpp unit/compile/stages_test.cpp unit/train/shared_directory_test.cpp unit/report/spikes_test.cpp unit/report/summary_test.cpp
          unit/report/tensorboard_test.cpp unit/runtime/token_rows_test.cpp
  DEPS weft::train weft::base weft::comm weft::kernels weft::deck weft::plan weft::exec weft::data weft::job weft::compile weft::runtime weft::compare weft::report nlohmann_json::nlohmann_json)
weft_test(trace
  SOURCES unit/exec/trace_test.cpp
  DEPS weft::exec nlohmann_json::nlohmann_json Threads::Threads)
