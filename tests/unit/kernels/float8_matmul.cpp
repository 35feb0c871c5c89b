// Tests by which of the library's algorithms products in Float8 are made.
#include "kernels/float8_matmul.hpp"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/device.hpp"
#include "kernels/float8.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

/// The products of 48 rows by a weight [32, 64] that differ in what is not their shape.
std::vector<Float8MatmulSpec> specs() {
  std::vector<Float8MatmulSpec> list;
  for (const MatmulForm form : {MatmulForm::forward, MatmulForm::dgrad})
    for (const bool add : {false, true})
      for (const DType format : {DType::e4m3, DType::e5m2})
        for (const Float8Scales scales : {Float8Scales::rowwise, Float8Scales::tensorwise})
          list.push_back({{form, 48, 64, 32, DType::bf16, DType::bf16, add}, format, scales});
  return list;
}

std::unique_ptr<Float8Matmul> make(const Float8MatmulSpec& spec) {
  return make_float8_matmul(spec.shape, spec.format, spec.scales);
}

/// A random operand in Float8, and the values that its bytes and scales stand for.
struct Operand {
  Operand(std::int64_t rows, std::int64_t width, DType format, Float8Scales kind, int seed)
      : bytes(rows * width, DType::u8), scales(rows, DType::f32) {
    const Device x(random(rows * width, DType::bf16, seed), DType::bf16), decoded(rows * width, DType::bf16);
    (kind == Float8Scales::rowwise ? quantize_rows : quantize_tensor)(
        space(), rows, width, DType::bf16, x.data(), format, bytes.data(), scales.as<float>());
    dequantize_rows(space(), rows, width, format, bytes.data(), scales.as<float>(), 1, decoded.data());
    values = decoded.read();
  }
  Device bytes, scales;
  Array values;
};

TEST(Float8Matmul, NamesTellProductsApart) {
  EXPECT_EQ(name_of(Float8MatmulSpec{{MatmulForm::dgrad, 48, 64, 32, DType::bf16, DType::bf16, true},
                                     DType::e5m2,
                                     Float8Scales::rowwise}),
            "dgrad, 48 rows, 64 in, 32 out, e5m2 by e4m3 to bf16, rowwise, added");
  std::set<std::string> names, of_decoded;
  for (const Float8MatmulSpec& spec : specs()) {
    names.insert(name_of(spec));
    of_decoded.insert(name_of(spec.shape));
  }
  EXPECT_EQ(names.size(), 16U);
  EXPECT_EQ(of_decoded.size(), 4U);
  names.merge(of_decoded);
  EXPECT_TRUE(of_decoded.empty()) << *of_decoded.begin() << " is also the name of a product in Float8";
}

/// An algorithm's text is understood again, by another object of the same product.
TEST(Float8Matmul, TakesTheAlgorithmsThatItOffers) {
  for (const Float8MatmulSpec& spec : specs()) {
    const MatmulSpec& shape = spec.shape;
    SCOPED_TRACE(name_of(spec));
    const std::unique_ptr<Float8Matmul> first = make(spec);
    EXPECT_EQ(name_of(first->spec()), name_of(spec));
    const std::vector<std::string> offered = first->algorithms(8);
    if (device_is_host()) {
      EXPECT_TRUE(offered.empty());
      EXPECT_TRUE(first->algorithm().empty());
      EXPECT_TRUE(first->take({{name_of(spec), "of a GPU"}})) << "there is nothing to take";
      continue;
    }
#ifdef WEFT_FAKECUDA
    ASSERT_FALSE(offered.empty());
#endif
    if (offered.empty()) {  // the device or its library has no such product, and operands are decoded
      EXPECT_FALSE(first->take({{name_of(spec), "cuBLASLt 1 2 3"}}));
      continue;
    }
    EXPECT_EQ(first->algorithms(1), std::vector<std::string>{offered[0]});
    EXPECT_EQ(first->algorithm(), offered[0]);
    const bool forward = shape.form == MatmulForm::forward;
    const std::int64_t summed = forward ? shape.in : shape.out, width = shape.in + shape.out - summed;
    const Operand x(shape.rows, summed, spec.format, spec.scales, 1),
        w(shape.out, shape.in, DType::e4m3, Float8Scales::tensorwise, 2);
    const Array before = random(shape.rows * width, DType::bf16, 3);
    Array expected = reference::matmul(shape, x.values, w.values);
    if (shape.add)
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    for (const std::string& text : offered) {
      const std::unique_ptr<Float8Matmul> other = make(spec);
      EXPECT_TRUE(other->take({{name_of(spec), text}, {name_of(shape), "cuBLASLt 1 2 3"}}));
      EXPECT_EQ(other->algorithm(), text);
      const Device y(before, DType::bf16);
      const Buffer work = scratch(other->scratch_bytes());
      other->run(space(), x.bytes.data(), x.scales.as<float>(), w.bytes.data(), w.scales.as<float>(),
                 y.data(), work.data());
      EXPECT_TRUE(close(y.read(), expected, 2 * tolerance(DType::bf16), 1e-3)) << text;
    }
  }
}

TEST(Float8Matmul, KeepsItsAlgorithmWhereTheLibraryKnowsNoOther) {
  if (device_is_host()) GTEST_SKIP() << "hosts have no algorithms to choose from";
  for (const Float8MatmulSpec& spec : specs()) {
    SCOPED_TRACE(name_of(spec));
    const std::unique_ptr<Float8Matmul> matmul = make(spec);
    const std::string own = matmul->algorithm();
    std::vector<std::string> unknown{"", "cuBLASLt", "cuBLASLt 1 2 3 4 5 6 7 8 9",
                                     own.substr(0, own.rfind(' '))};
#ifdef WEFT_FAKECUDA  // whose algorithms are each for one kind of operands; the library does not say so of
                      // its own
    unknown.push_back(Matmul(spec.shape).algorithm());
    for (const Float8MatmulSpec& other : specs())
      if (other.shape.form == spec.shape.form && (other.format != spec.format || other.scales != spec.scales))
        unknown.push_back(make(other)->algorithm());
#endif
    for (const std::string& text : unknown) {
      EXPECT_FALSE(matmul->take({{name_of(spec), text}})) << text;
      EXPECT_EQ(matmul->algorithm(), own);
    }
  }
}

/// The library multiplies no widths that 16 does not divide.
TEST(Float8Matmul, OfDecodedOperandsHasNothingToChoose) {
  for (Float8MatmulSpec spec : specs()) {
    spec.shape.in = 40;
    SCOPED_TRACE(name_of(spec));
    const std::unique_ptr<Float8Matmul> matmul = make(spec);
    EXPECT_TRUE(matmul->algorithms(8).empty());
    EXPECT_TRUE(matmul->algorithm().empty());
    EXPECT_TRUE(matmul->take({}));
    EXPECT_TRUE(matmul->take({{name_of(spec.shape), "cuBLASLt 1 2 3"}})) << "that of the product in bf16";
    EXPECT_EQ(matmul->take({{name_of(spec), "cuBLASLt 1 2 3"}}), device_is_host());
  }
}

}  // namespace
}  // namespace weft::kernels
