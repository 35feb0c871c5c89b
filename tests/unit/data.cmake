weft_test(data
  SOURCES unit/data/bpe_tokenizer_test.cpp unit/data/file_names_test.cpp unit/data/import_test.cpp unit/data/prepare_test.cpp unit/data/sampler_test.cpp unit/data/text_reader_test.cpp unit/data/token_file_test.cpp
          unit/data/tokenizer_test.cpp
  DEPS weft::data weft::base)
# Some tests compare with the libraries themselves.
target_link_libraries(test_data PRIVATE weft::sentencepiece_train weft::sentencepiece ZLIB::ZLIB nlohmann_json::nlohmann_json)
if(TARGET weft::pcre2)
  target_compile_definitions(test_data PRIVATE WEFT_HAS_PCRE2)
endif()
