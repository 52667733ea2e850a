// What kernels took in an update, beside what products and memory allow; of all ranks or of one.

/** The kinds of kernels of some ranks, an update's worth, the longest first; and the rest. */
function kernelRows(ranks) {
  const kinds = new Map();
  for (const rank of ranks)
    for (const {kind, ...values} of rank.kernels) {
      const all =
          kinds.get(kind) || {kind, calls: 0, seconds: 0, flops: 0, bytes: 0, least_seconds: 0};
      for (const key of Object.keys(values)) all[key] += values[key] / rank.updates;
      kinds.set(kind, all);
    }
  return [...kinds.values()].sort((a, b) => b.seconds - a.seconds);
}

function profilePanel() {
  const {profile} = data.summary;
  if (!profile) return null;
  const one = chosen('profile', 'all'), ranks = profile[one] ? [profile[one]] : profile;
  const ofUpdate = (key) => sum(ranks.map((rank) => rank[key] / rank.updates));
  const whole = ofUpdate('seconds'), between = ofUpdate('seconds_between_kernels');
  const {rates, threads} = ranks[0], giga = (value) => digits(value / 1e9);
  const row = (kind, time, ...cells) =>
      el('tr', {}, el('th', {}, kind), el('td', {style: `--share:${time / whole}`}, seconds(time)),
         el('td', {}, percent(time / whole)), cells.map((text) => el('td', {}, text)));
  return panel(
      'Kernels of an update',
      `Means of ${
          plural(ranks[0].updates, 'update')}. A kernel's limit is the time of its products ` +
          `or of its bytes, whichever is longer, at the rates that ${
              plural(threads, 'thread')} of a rank reached in this run: ${
              giga(rates.f32_flops_per_second)} GFLOP/s in f32, ${
              giga(rates.bf16_flops_per_second)} in bf16, and ${
              giga(rates.bytes_per_second)} GB/s. ` +
          'A kernel whose data is in the cache can pass its limit.',
      profile.length > 1 &&
          el('div', {class: 'tools'},
             switcher(
                 'profile', 'Ranks',
                 [
                   ['all', 'all ranks together'], ...profile.map((_, i) => [String(i), `rank ${i}`])
                 ],
                 'all', rebuild)),
      scroller(
         el('table', {class: 'kernels'},
            el('tr', {},
               ['kernel', 'time', 'share', 'calls', 'GFLOP', 'bytes', 'limit', 'of limit'].map(
                   (name) => el('th', {}, name))),
            kernelRows(ranks).map(
                (each) =>
                    row(each.kind, each.seconds, digits(each.calls),
                        each.flops ? giga(each.flops) : '', bytes(each.bytes),
                        seconds(each.least_seconds), percent(each.least_seconds / each.seconds))),
            row('between kernels', between), row('the update', whole))));
}
