// The kernels that a device may have: a list to include inside a class. PG_KERNEL(name, arguments)
// ends each line: in Backend it is a body that throws; in a backend that has all kernels,
// `override`; one that wraps another backend passes the arguments on.
// Not here: their loops (autograd/cpu, cuda/backend). Chapters 01 and 03.

// One value everywhere, and random values, drawn as in autograd/random.h.
virtual void fill(double value, Out y) PG_KERNEL(fill, value, y);
virtual void fill_normal(RandomKey key, double mean, double deviation, Out y)
    PG_KERNEL(fill_normal, key, mean, deviation, y);
virtual void fill_uniform(RandomKey key, double low, double high, Out y)
    PG_KERNEL(fill_uniform, key, low, high, y);

// Moving values. copy: y has as many elements as x; if types differ, values are converted.
virtual void copy(In x, Out y) PG_KERNEL(copy, x, y);
/// y's dimension i is x's dimension order[i].
virtual void permute(In x, const std::vector<int>& order, Out y) PG_KERNEL(permute, x, order, y);
/// y[i] = x[index[i]], or y[i] += x[index[i]]; x and y may differ in type. Indices (i32) ascend.
/// throws: Error if an index is outside x
virtual void gather(In x, In index, bool add, Out y) PG_KERNEL(gather, x, index, add, y);
/// y[index[i]] = x[i], and zero elsewhere; gather reads x back. x and y have the same type.
/// throws: Error if an index is outside y
virtual void expand(In x, In index, Out y) PG_KERNEL(expand, x, index, y);

// Element by element. binary broadcasts a and b to y's shape.
virtual void unary(Unary op, In x, Out y) PG_KERNEL(unary, op, x, y);
/// dx = dy * op'(x); y is op(x).
virtual void unary_backward(Unary op, In x, In y, In dy, Out dx)
    PG_KERNEL(unary_backward, op, x, y, dy, dx);
virtual void binary(Binary op, In a, In b, Out y) PG_KERNEL(binary, op, a, b, y);
/// y = scale * x + shift
virtual void affine(In x, double scale, double shift, Out y) PG_KERNEL(affine, x, scale, shift, y);
/// x *= factor, a single element in statistic_dtype. A factor of 1 costs no pass over x.
virtual void scale_by(In factor, Out x) PG_KERNEL(scale_by, factor, x);
/// y += x; x may have a narrower type.
virtual void accumulate(In x, Out y) PG_KERNEL(accumulate, x, y);
/// y = x / (1 - p) where uniform(key, i) >= p, else 0.
virtual void dropout(In x, double p, RandomKey key, Out y) PG_KERNEL(dropout, x, p, key, y);
/// y = gelu(x + bias), in GPT-2's tanh form.                                x (R,C), bias (C)
virtual void bias_gelu(In x, In bias, Out y) PG_KERNEL(bias_gelu, x, bias, y);
virtual void bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias)
    PG_KERNEL(bias_gelu_backward, x, bias, dy, dx, dbias);

// Reductions. y has x's rank, with size 1 along the reduced dimensions.
virtual void reduce(Reduction op, In x, Out y) PG_KERNEL(reduce, op, x, y);
/// Sums the squares of each tensor's elements, in f64; the host waits for the device only once.
virtual std::vector<double> sums_of_squares(const std::vector<Tensor>& tensors)
    PG_KERNEL(sums_of_squares, tensors);

// Matrices.
/// c = op(a) op(b), or c += op(a) op(b); `bias` (N), where defined, is added to every row.
/// op transposes its matrix if the flag is set.        op(a) (B,M,K), op(b) (B,K,N), c (B,M,N)
virtual void gemm(Gemm how, In a, In b, In bias, Out c) PG_KERNEL(gemm, how, a, b, bias, c);

// Sparse matrices.
/// c = b A^T + bias, where A (M,K) is sparse.                            b (N,K), bias (M), c (N,M)
virtual void spmm(const SparsePattern& pattern, In values, In b, In bias, Out c)
    PG_KERNEL(spmm, pattern, values, b, bias, c);
/// The elements of d^T b at the places of a pattern (M,K) without source: element i, in row r and
/// column k, is values[i] = sum_n d[n,r] b[n,k], in gradient_dtype.                d (N,M), b (N,K)
virtual void sddmm(const SparsePattern& pattern, In d, In b, Out values)
    PG_KERNEL(sddmm, pattern, d, b, values);

// Rows.                                                                            x, y (R,C)
virtual void softmax(In x, Out y) PG_KERNEL(softmax, x, y);
virtual void softmax_backward(In y, In dy, Out dx) PG_KERNEL(softmax_backward, y, dy, dx);
/// Normalises x; or, if `a` is defined, sum = x + a, which it writes, too. Also writes each row's
/// mean and 1 / deviation, in statistic_dtype.                                  mean, inverse (R)
virtual void layer_norm(In x, In a, In weight, In bias, double epsilon, Out sum, Out y, Out mean,
                        Out inverse)
    PG_KERNEL(layer_norm, x, a, weight, bias, epsilon, sum, y, mean, inverse);
/// dx is the gradient plus `so_far`, where defined: what x has received from elsewhere.
virtual void layer_norm_backward(In x, In weight, In mean, In inverse, In dy, In so_far, Out dx,
                                 Out dweight, Out dbias)
    PG_KERNEL(layer_norm_backward, x, weight, mean, inverse, dy, so_far, dx, dweight, dbias);
/// loss[r] = log sum_c exp(logits[r,c]) - logits[r,target[r]], over the columns c below `classes`;
/// those from there on only fill the rows. If `dlogits` is defined, which may be `logits` itself,
///   dlogits[r,c] = scale * (softmax(logits[r])[c] - [c == target[r]]), and 0 from `classes` on.
/// throws: Error if a target is outside [0,classes)
virtual void cross_entropy(In logits, In targets, std::int64_t classes, double scale, Out loss,
                           Out dlogits)
    PG_KERNEL(cross_entropy, logits, targets, classes, scale, loss, dlogits);
/// throws: Error if an id is outside the table                  table (V,C), ids (R), y (R,C)
virtual void embedding(In table, In ids, Out y) PG_KERNEL(embedding, table, ids, y);
virtual void embedding_backward(In ids, In dy, Out dtable)
    PG_KERNEL(embedding_backward, ids, dy, dtable);

// Causal self-attention over packed queries, keys, values.
//                                                     qkv (B,T,3C), y (B,T,C), normalizer (B,H,T)
virtual void attention(In qkv, int heads, Out y, Out normalizer)
    PG_KERNEL(attention, qkv, heads, y, normalizer);
virtual void attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv)
    PG_KERNEL(attention_backward, qkv, heads, y, normalizer, dy, dqkv);

// Images.                                        x (N,C,H,W), weight (K,C,kh,kw), y (N,K,Ho,Wo)
virtual void conv2d(In x, In weight, Window window, Out y) PG_KERNEL(conv2d, x, weight, window, y);
virtual void conv2d_backward_input(In dy, In weight, Window window, Out dx)
    PG_KERNEL(conv2d_backward_input, dy, weight, window, dx);
virtual void conv2d_backward_weight(In x, In dy, Window window, Out dweight)
    PG_KERNEL(conv2d_backward_weight, x, dy, window, dweight);
/// The maximum of each window, and the maximum's place in its image.      index as y, in i32
virtual void max_pool2d(In x, Window window, Out y, Out index)
    PG_KERNEL(max_pool2d, x, window, y, index);
virtual void max_pool2d_backward(In dy, In index, Out dx)
    PG_KERNEL(max_pool2d_backward, dy, index, dx);
/// Mean and biased variance of each channel, in statistic_dtype.               mean, variance (C)
virtual void batch_norm_statistics(In x, Out mean, Out variance)
    PG_KERNEL(batch_norm_statistics, x, mean, variance);
virtual void batch_norm_apply(In x, In mean, In variance, In weight, In bias, double epsilon, Out y)
    PG_KERNEL(batch_norm_apply, x, mean, variance, weight, bias, epsilon, y);
/// The gradient includes that of mean and variance, which are functions of x.
virtual void batch_norm_backward(In x, In mean, In variance, In weight, double epsilon, In dy,
                                 Out dx, Out dweight, Out dbias)
    PG_KERNEL(batch_norm_backward, x, mean, variance, weight, epsilon, dy, dx, dweight, dbias);

// Values of f32 or bf16 as bytes (parallel/codecs); `bytes` is u8.
/// Writes each bucket's unit = (max - min) / (2^bits - 1) and min, in x's type; then each element's
///   level = min(floor((x - min) / unit + r), 2^bits - 1), or 0 if unit < 1e-10,
/// with r = 1/2, or uniform(key, i) for element i; 8 levels take `bits` bytes, the first level in
/// the lowest bits, and zeros fill up to a multiple of 8 bytes. If one of a bucket's values is
/// infinite or NaN, its unit and min are NaN, and so is all that is read back.
virtual void quantize(In x, Quantizer how, RandomKey key, Out bytes)
    PG_KERNEL(quantize, x, how, key, bytes);
/// y = min + unit * level
virtual void dequantize(In bytes, Quantizer how, Out y) PG_KERNEL(dequantize, bytes, how, y);
/// The k-th largest magnitude, with k from 1 to the number of elements.
virtual Magnitude magnitude(In x, std::int64_t k) PG_KERNEL(magnitude, x, k);
/// Writes selected elements' indices (i32) to the slots, then their values; an empty slot has -1.
virtual Selected select(In x, Selection which, Out bytes) PG_KERNEL(select, x, which, bytes);
/// Fills the slots' values with x[index], or 0 in empty slots: the same elements of another x.
virtual void collect(In x, Out bytes) PG_KERNEL(collect, x, bytes);
/// y[index] = value for each slot; zero elsewhere.
/// throws: Error if an index is outside y
virtual void scatter(In bytes, Out y) PG_KERNEL(scatter, bytes, y);

// Optimizers. A step updates these segments of `master`, which lie in ascending order; if `weights`
// is another tensor, its segments receive the result, rounded to its type.
virtual void sgd(const SgdStep& step, const Segments& segments, In gradient, Out momentum,
                 Out master, Out weights)
    PG_KERNEL(sgd, step, segments, gradient, momentum, master, weights);
virtual void adamw(const AdamWStep& step, const Segments& segments, In gradient, Out first_moment,
                   Out second_moment, Out master, Out weights)
    PG_KERNEL(adamw, step, segments, gradient, first_moment, second_moment, master, weights);

#ifndef PG_GPU_KERNELS  // kernels for the CPU alone: CudaBackend throws an error with their name
#endif
