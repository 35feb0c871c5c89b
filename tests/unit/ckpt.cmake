weft_test(ckpt
  SOURCES unit/ckpt/sample_state.cpp unit/ckpt/boxes_test.cpp unit/ckpt/roundtrip_test.cpp unit/ckpt/index_test.cpp
          unit/ckpt/damage_test.cpp unit/ckpt/atomic_test.cpp unit/ckpt/keep_test.cpp unit/ckpt/full_disk_test.cpp unit/ckpt/format_test.cpp unit/ckpt/manifest_test.cpp
          unit/ckpt/shard_test.cpp unit/ckpt/collective_load_test.cpp unit/ckpt/descriptions_test.cpp unit/ckpt/load_memory_test.cpp
          ${WEFT_FAULTS_SOURCES}
  DEPS weft::ckpt weft::base weft::io hdf5::hdf5)
if(WEFT_FAULTS_SOURCES)
  target_sources(test_ckpt PRIVATE unit/ckpt/storage_test.cpp)
endif()
