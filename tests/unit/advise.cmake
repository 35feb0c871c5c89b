weft_test(advise SOURCES unit/advise/advise_test.cpp DEPS weft::advise weft::compile weft::deck weft::plan weft::machine weft::model weft::passes)
