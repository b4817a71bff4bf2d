// Runs an AOTInductor package without Python: PACKAGE INPUT ROWS COLUMNS OUTPUT CALLS.
#include <ATen/ops/from_blob.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int main(int count, char** words) {
  if (count != 7) {
    std::cerr << "usage: " << words[0] << " PACKAGE INPUT ROWS COLUMNS OUTPUT CALLS\n";
    return 2;
  }
  try {
    const int64_t rows = std::stoll(words[3]), columns = std::stoll(words[4]), calls = std::stoll(words[6]);
    std::vector<float> numbers(rows * columns);
    const std::streamsize bytes = rows * columns * sizeof(float);
    std::ifstream input(words[2], std::ios::binary);
    if (!input.read(reinterpret_cast<char*>(numbers.data()), bytes)) {
      std::cerr << words[2] << " does not hold " << rows << " rows of " << columns << " floats\n";
      return 1;
    }
    auto start = Clock::now();
    torch::inductor::AOTIModelPackageLoader model(words[1]);
    const double loading = seconds_since(start);
    const std::vector<at::Tensor> inputs = {at::from_blob(numbers.data(), {rows, columns})};
    std::vector<at::Tensor> outputs;
    double quickest = 0;
    for (int64_t call = 0; call < calls; ++call) {
      start = Clock::now();
      outputs = model.run(inputs);
      const double seconds = seconds_since(start);
      quickest = call == 0 ? seconds : std::min(quickest, seconds);
    }
    std::ofstream result(words[5], std::ios::binary);
    result.write(reinterpret_cast<const char*>(outputs[0].const_data_ptr()), outputs[0].nbytes());
    const int64_t* counted = outputs[1].const_data_ptr<int64_t>();
    std::cout << loading << " " << quickest << " " << counted[0] << " " << counted[1] << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
