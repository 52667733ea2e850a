# What codecs gain where the network is slow: network_lab.sh sources this file. Codecs take turns,
# `rounds` times; figures are medians. PyTorch's DistributedDataParallel trains an equal GPT, if the
# Python named by PYTORCH (python3) has it. Wants a machine that does nothing else, 5 minutes.
# CODECS replaces those that are chosen here.
source "$root/tests/benchmarks/training_lab.sh"
read -ra codecs <<<"${CODECS:-none bf16 quantize:8 quantize:4 quantize:2 adaptive:1024:3 topk:0.01 lowrank:4}"
pytorch=${PYTORCH:-python3}

run_pytorch() {
  on_hosts env MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=eth0 "$pytorch" \
    "$root/tests/benchmarks/ddp_gloo.py" $size --vocabulary 256 --batch $batch --steps $((steps - 1)) >"$runs/line"
  sed -n 's/.*"seconds": \([0-9.e-]*\),.*/\1/p' "$runs/line" >>"$runs/pytorch.seconds"
  sed -n 's/.*"bytes": \([0-9]*\),.*/\1/p' "$runs/line" >"$runs/pytorch.bytes"
}

choose_rate
has_pytorch=
! "$pytorch" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null || has_pytorch=yes
for round in $(seq "$rounds"); do
  compute
  for codec in "${codecs[@]}"; do run "$codec" --codec "$codec"; done
  [[ -z $has_pytorch ]] || run_pytorch
done

{
  describe_lab
  head_of_rows codec
  for codec in "${codecs[@]}"; do row "\`$codec\`" "$codec"; done
  if [[ -n $has_pytorch ]]; then
    version=$(sed -n 's/.*"torch": "\([^"]*\)".*/\1/p' "$runs/line")
    row "PyTorch $version, DistributedDataParallel over gloo" pytorch
  else
    echo "| PyTorch: not there | | | | | | | | |"
  fi
} | tee "$runs/table.md"
mv "$runs/table.md" "$root/tests/benchmarks/results/codec_lab.md"
