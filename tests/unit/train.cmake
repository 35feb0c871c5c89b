weft_test(train_reports
  SOURCES unit/train/bad_steps_test.cpp unit/train/compare_test.cpp unit/train/flops_test.cpp unit/train/learning_rate_test.cpp unit/train/log_test.cpp unit/train/memory_usage_test.cpp
          unit/train/metrics_test.cpp unit/train/progress_test.cpp unit/train/rank_times_test.cpp unit/train/sampling_test.cpp unit/train/scheduling_test.cpp unit/train/shared_directory_test.cpp unit/train/spikes_test.cpp unit/train/summary_test.cpp
          unit/train/tensorboard_test.cpp unit/train/token_rows_test.cpp
  DEPS weft::train nlohmann_json::nlohmann_json)
weft_test(trace
  SOURCES unit/train/trace_test.cpp
  DEPS weft::exec nlohmann_json::nlohmann_json Threads::Threads)
