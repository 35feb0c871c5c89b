// Elementary functions with the same bits on every host. The C library's functions choose their code by the
// processor, with or without fused multiply and add, so their last digits differ; what becomes part of a
// run's bits uses the functions here instead. They are exact within two units in the last place, and are
// built without contraction (CMakeLists.txt).
#pragma once

namespace weft::portable {

/// The natural logarithm of a normal x above 0. It is -infinity for 0, NaN below, and x itself for infinity
/// and NaN.
double log(double x);
/// The power e^x; 0 below -708, infinity above 709.
double exp(double x);
/// The power x^y of a positive x. The error grows with |y log x|: by half a unit for each 1 of it.
double pow(double x, double y);

struct CosSin {
  double cos, sin;
};
/// Cosine and sine of `turns` full turns, 0 <= turns < 2^50.
CosSin of_turns(double turns);
/// Cosine and sine of an angle in radians, 0 <= angle < 2^24.
CosSin of_radians(double angle);

}  // namespace weft::portable
