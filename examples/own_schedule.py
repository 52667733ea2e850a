"""Writes a pipeline's computations, for `plan lower`: each stage runs what is ready, backwards
first, and keeps at most K microbatches. Chapter 06."""
# [snippet own_schedule]
D, M, K = 4, 8, 3  # stages, microbatches, microbatches that a stage keeps
rows, F, B = [[] for _ in range(D)], [0] * D, [0] * D  # F, B: forwards and backwards done
while sum(B) < D * M:
    f, b = F[:], B[:]  # before this time step
    for s in range(D):
        input_ready = f[s] < (M if s == 0 else f[s - 1])
        gradient_ready = b[s] < (f[s] if s == D - 1 else b[s + 1])
        if gradient_ready:
            rows[s].append(f"{s}B{B[s]}v0")
            B[s] += 1
        elif input_ready and f[s] - b[s] < K:
            rows[s].append(f"{s}F{F[s]}v0")
            F[s] += 1
print(f"stages {D} per_step {M} steps 1", *map(" ".join, rows), sep="\n")
# [end snippet]
