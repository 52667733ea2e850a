// The three kinds of layers of a GPT, their initial weights, and their FLOPs. Parameters have
// Hugging Face's names. Not here: Hugging Face's files, which store matrices transposed
// (nn/checkpoint/gpt_files.cpp). Chapter 02; Radford et al. 2019, section 2.3.
#include "nn/models/gpt.h"

#include <nlohmann/json.hpp>

namespace plangrad::nn {

void GptConfig::check() const {
  PG_CHECK(layers > 0 && heads > 0 && width > 0 && context > 0 && vocabulary > 0,
           "a GPT needs at least one layer, head, channel, position and token; got layers ", layers,
           ", heads ", heads, ", width ", width, ", context ", context, ", vocabulary ",
           vocabulary);
  constexpr int widest = 1 << 20, deepest = 1 << 12;
  PG_CHECK(width <= widest && layers <= deepest, "a width of ", width, " and ", layers,
           " layers are more than this network supports; the width is at most ", widest,
           ", the layers are at most ", deepest);
  PG_CHECK(width % heads == 0, "the width must be a multiple of the heads; ", width, " / ", heads,
           " leaves ", width % heads);
  PG_CHECK(dropout >= 0 && dropout < 1, "dropout must be in [0,1), got ", dropout);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GptConfig, layers, heads, width, context, dropout,
                                                vocabulary, tied)

nlohmann::json to_json(const GptConfig& config) { return config; }

GptConfig gpt_config(const nlohmann::json& saved) try {
  PG_CHECK(saved.is_object(), "expected an object");
  const nlohmann::json usual = GptConfig();
  for (const auto& [key, value] : saved.items()) PG_CHECK(usual.contains(key), key, " is no key");
  for (const auto& [key, like] : usual.items()) {
    constexpr int most = std::numeric_limits<int>::max();
    const nlohmann::json value = saved.value(key, like);
    const bool is_size = like.is_number_integer();
    PG_CHECK(saved.contains(key) || !is_size, key, " is missing");
    PG_CHECK(!is_size || (value.is_number_integer() && value >= 1 && value <= most), key, " is ",
             value.dump(), ", expected a whole number from 1 to ", most);
    PG_CHECK(value.is_number() == like.is_number() && value.is_boolean() == like.is_boolean(), key,
             " is ", value.dump(), ", expected a value like ", like.dump());
  }
  auto config = saved.get<GptConfig>();
  config.check();
  return config;
} catch (const Error& error) {
  throw Error(text("this is not the description of a GPT: ", error.what(), "; it needs layers, ",
                   "heads, width, context, vocabulary, and can have dropout (0) and tied (true)"));
}

namespace {

/// The deviation of initial weights, which are drawn from N(0, 2 / 5C): 0.023 at width 768, near
/// GPT-2's 0.02, and more in narrow models, whose sums have fewer terms.
/// source: Nguyen and Salazar 2019, "Transformers without tears", section 2.2
double deviation(const GptConfig& config) { return std::sqrt(2.0 / (5.0 * config.width)); }

/// Applies dropout at the named place; pass and place decide which values it drops.
Tensor drop(const Tensor& x, double p, const std::string& place, const Pass& pass) {
  if (!pass.training || p == 0) return x;
  return dropout(x, p, RandomKey(pass.seed, place + "." + std::to_string(pass.microbatch)));
}

/// Adds the embeddings of token and position.                       tokens (B,T) -> (B,T,C)
class Embedding : public Layer {
 public:
  Embedding(ParameterList& list, const GptConfig& config)
      : tokens_(list.add("wte.weight", {config.vocabulary, config.width},
                         Init::normal(deviation(config)))),
        positions_(list.add("wpe.weight", {config.context, config.width},
                            Init::normal(deviation(config)))),
        dropout_(config.dropout) {}

  Tensor forward(const Tensor& x, const Pass& pass) const override {
    PG_CHECK(x.shape().rank() == 2, "gpt: expected tokens (B,T), got ", x.shape());
    std::int64_t time = x.size(1), context = positions_.shape[0];
    PG_CHECK(time <= context, "gpt: ", time, " tokens are more than the context of ", context);
    Tensor y = embedding(tokens_.value, x) + slice(positions_.value, 0, 0, time);
    return drop(y, dropout_, "drop", pass);
  }

 private:
  Parameter &tokens_, &positions_;
  double dropout_;
};

/// Keeps the variance of the residual path, which adds 2 * layers terms (GPT-2, section 2.3).
Init into_residual(const GptConfig& config) {
  return Init::normal(deviation(config) / std::sqrt(2.0 * config.layers));
}

// [snippet block]
/// x + attention(norm(x)).                                              (B,T,C) -> (B,T,C)
class Attention : public Layer {
 public:
  Attention(ParameterList& list, const std::string& name, const GptConfig& config)
      : place_(name + ".attn"),
        heads_(config.heads),
        dropout_(config.dropout),
        norm_(list, name + ".ln_1", config.width),
        qkv_(list, name + ".attn.c_attn", config.width, 3 * config.width,
             Init::normal(deviation(config))),
        out_(list, name + ".attn.c_proj", config.width, config.width, into_residual(config)) {}

  /// The attention's result, which forward() adds to x.
  Tensor added(const Tensor& x, const Pass& pass) const {
    Tensor a = out_.forward(attention(qkv_.forward(norm_.forward(x)), heads_));
    return drop(a, dropout_, place_, pass);
  }
  Tensor forward(const Tensor& x, const Pass& pass) const override { return x + added(x, pass); }

 private:
  std::string place_;
  int heads_;
  double dropout_;
  LayerNorm norm_;
  Linear qkv_, out_;
};

/// x + mlp(norm(x)).                                                    (B,T,C) -> (B,T,C)
class Mlp : public Layer {
 public:
  Mlp(ParameterList& list, const std::string& name, const GptConfig& config)
      : place_(name + ".mlp"),
        dropout_(config.dropout),
        norm_(list, name + ".ln_2", config.width),
        up_(list, name + ".mlp.c_fc", config.width, 4 * config.width,
            Init::normal(deviation(config))),
        down_(list, name + ".mlp.c_proj", 4 * config.width, config.width, into_residual(config)) {}

  /// The MLP on h = x + a. One kernel adds them up and normalizes the sum.
  Tensor forward(const Tensor& x, const Tensor& a, const Pass& pass) const {
    auto [h, n] = norm_.forward(x, a);  // h = x + a
    return h + added(n, pass);
  }
  Tensor forward(const Tensor& x, const Pass& pass) const override {
    return x + added(norm_.forward(x), pass);
  }

 private:
  Tensor added(const Tensor& n, const Pass& pass) const {
    return drop(down_.forward(up_.forward_gelu(n)), dropout_, place_, pass);
  }

  std::string place_;
  double dropout_;
  LayerNorm norm_;
  Linear up_, down_;
};

/// Both, one after the other.                                           (B,T,C) -> (B,T,C)
class Block : public Layer {
 public:
  Block(ParameterList& list, const std::string& name, const GptConfig& config)
      : attention_(list, name, config), mlp_(list, name, config) {}

  Tensor forward(const Tensor& x, const Pass& pass) const override {
    return mlp_.forward(x, attention_.added(x, pass), pass);
  }

 private:
  Attention attention_;
  Mlp mlp_;
};
// [end snippet]

/// Computes the logits of the next token.                             (B,T,C) -> (B,T,V)
class Head : public Layer {
 public:
  Head(ParameterList& list, const GptConfig& config)
      : norm_(list, "ln_f", config.width),
        table_(list.add(config.tied ? "wte.weight" : "lm_head.weight",
                        {config.vocabulary, config.width}, Init::normal(deviation(config)))) {
    table_.multiplies = !config.tied;
  }

  Tensor forward(const Tensor& x, const Pass&) const override {
    return linear(norm_.forward(x), table_);
  }
  Tensor loss(const Tensor& x, const Tensor& targets, const Pass& pass) const override {
    if (table_.product) return Layer::loss(x, targets, pass);
    return linear_cross_entropy(norm_.forward(x), table_.value, targets);
  }

 private:
  LayerNorm norm_;
  Parameter& table_;
};

/// The number of weights in a block's matrices: 3 + 1 squares of the width, and 4 + 4.
double attention_matrices(const GptConfig& config) { return 4.0 * config.width * config.width; }
double mlp_matrices(const GptConfig& config) { return 8.0 * config.width * config.width; }

}  // namespace

Model gpt(const GptConfig& config) {
  config.check();
  const double context = config.context, width = config.width;
  const double attention = context * (2.0 * attention_matrices(config) + 4.0 * context * width);
  const double mlp = context * 2.0 * mlp_matrices(config);
  auto embedded = [config](const Shape& x) { return Shape{x[0], x[1], config.width}; };
  auto logits = [config](const Shape& x) { return x.with(2, config.vocabulary); };
  Model model{{"embedding", builds<Embedding>(config), 0, embedded}};
  for (int i = 0; i < config.layers; ++i) {
    const std::string name = text("h.", i);
    model.push_back({name,
                     builds<Block>(name, config),
                     attention + mlp,
                     embedded,
                     {{name + ".attn", builds<Attention>(name, config), attention, embedded},
                      {name + ".mlp", builds<Mlp>(name, config), mlp, embedded}}});
  }
  model.push_back(
      {"head", builds<Head>(config), context * 2.0 * width * config.vocabulary, logits});
  return model;
}

double gpt_flops_per_token(const GptConfig& config, int context) {
  const double multiply = config.layers * (attention_matrices(config) + mlp_matrices(config)) +
                          static_cast<double>(config.vocabulary) * config.width;
  return 6.0 * multiply + 12.0 * config.layers * config.width * context;
}

}  // namespace plangrad::nn
