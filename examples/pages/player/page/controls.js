// Controls: which plan, and what things cost. They make a request (request.h), which the module
// answers.

const preset = (name, ask, schedule, more) =>
    ({name, ask, request: {schedule, stages: 4, ...more}});
const presets = [
  preset('1F1B and its bubble', 0, '1f1b', {microbatches: 4, steps: 3, costs: {backward: [2]}}),
  preset('2BW and its two versions', 1, '2bw', {microbatches: 4, steps: 3, costs: {backward: [2]}}),
  preset('Cyclic: the round dance', -1, 'cyclic-v2', {steps: 4, costs: {weight_bytes: [1e6]}}),
  preset(
      'ZeRO 3: shards', -1, 'data',
      {data_parallel: 4, microbatches: 1, zero: 3, steps: 2, costs: {backward: [2], latency: 0.05}})
];

// What the page says of a field in words of its own, and where its slider ends. Another field has
// the name and the line of its flag, and 8; null is shown where a request has it.
const special = {
  first: null,
  codec: null,
  channel: null,
  cuts: null,
  stages: {most: 16, what: 'parts of the model: layers that follow each other'},
  microbatches: {most: 32, what: 'parts of a batch; a stage computes one at a time'},
  data_parallel:
      {name: 'replicas', what: 'copies of the whole pipeline, each with its own part of the batch'},
  steps: {name: 'updates', what: 'steps of the optimizer, each with the gradients of one batch'},
  zero: {
    name: 'ZeRO level',
    what: 'what replicas shard instead of copying: 1 the optimizer’s state, 2 gradients ' +
        'too, 3 weights too'
  },
  recompute:
      {what: 'keep only the input of a stage, and run its forward again before the backward'},
  clip: {
    name: 'clip the gradient',
    what: 'updates wait for the norm of the whole gradient, to scale down a long one'
  },
  tied: {
    name: 'tied embedding',
    what: 'the first and the last stage share one matrix: that of tokens'
  },
  endless: {what: 'a plan whose body repeats, for any number of updates'}
};
const front = ['stages', 'microbatches', 'steps', 'data_parallel'];  // beside the schedule
const ofReplicas = ['microbatches', 'data_parallel', 'zero'];        // cyclic schedules have none

/** Costs by stage become one value, their mean, where the request has another number of stages. */
function fitCosts({stages, tied, costs}) {
  for (const [key, list] of Object.entries(costs || {}))
    if (key !== 'hosts' && key !== 'slowness' && Array.isArray(list) && list.length > 1 &&
        list.length !== stages && !(tied && list.length === stages + 1))
      costs[key] = [list.reduce((sum, each) => sum + each, 0) / list.length];
}

/**
 * Gives a host these children. A control of the same name that is there already stays, with its new
 * limits and value, so that it keeps the focus, and the pointer that drags it.
 */
function refresh(host, children) {
  const name = child => child.dataset.control;
  const old = new Map(Array.from(host.children, child => [name(child), child]));
  const kept = children.map(child => name(child) && old.get(name(child)) || child);
  for (const child of [...host.children])
    if (!kept.includes(child)) child.remove();
  kept.forEach((child, k) => {
    if (host.children[k] !== child) host.insertBefore(child, host.children[k] || null);
    if (child === children[k]) return;
    const [from, to] = [children[k], child].map(each => each.querySelector('input, select'));
    const {value} = from;
    if (to.matches('select')) to.replaceChildren(...from.children);
    for (const key of ['min', 'max', 'step', 'size', 'checked', 'oninput', 'onchange'])
      if (key in to) to[key] = from[key];
    to.value = value;
    const [said, saying] = [children[k], child].map(each => each.querySelector('output'));
    if (saying) saying.textContent = said.textContent;
  });
}

class Controls {
  /**
   * page: its schedules, and the fields of a request
   * asked(request): is called when something was chosen
   */
  constructor(host, {schedules, fields}, asked) {
    Object.assign(this, {host, schedules, fields, asked, most: {}});
    host.replaceChildren(
        this.plan = el('div', {className: 'choices'}),
        this.said = el('p', {className: 'said notice'}),
        el('details', {}, el('summary', {}, 'costs and more'),
           this.more = el('div', {className: 'choices'}),
           this.costs = el('div', {className: 'choices'})));
  }

  /** Shows the controls of a request; those of a plan's text have costs only. */
  show(request) {
    if (this.timer) return;  // a newer choice is about to be asked for, and its answer shown
    this.request = structuredClone(request);
    if (request.schedule) this.before = structuredClone(request);
    if (request.of && request.plan) this.run ||= structuredClone(request);
    const back = request.schedule ? this.run : this.before;
    const byHand = request.of ? 'that of the run' : 'written by hand';
    const {request: r} = this, schedule = this.schedules.find(each => each.name === r.schedule);
    const costs = r.costs ||= {}, one = (list, otherwise) => [].concat(list ?? otherwise)[0];
    const isFront = ({key}) => front.includes(key);
    const shown = r.schedule ? this.shownFields(r, schedule) : [];
    const controls = fields => fields.map(field => this.fieldControl(r, schedule, field));
    refresh(this.more, controls(shown.filter(field => !isFront(field))));
    refresh(this.plan, [
      this.choice(
          'schedule', [...this.schedules.map(each => each.name), ...(r.schedule ? [] : [byHand])],
          r.schedule || byHand, name => this.schedule(name)),
      ...(back ? [el('button', {type: 'button', onclick: () => this.asked(back)},
                     'back to ' + (back.schedule || 'the run'))] :
                 []),
      ...controls(front.flatMap(key => shown.filter(field => field.key === key)))
    ]);
    const say = value => value === 0 ? '0' : timeUnit(costs, value).say(value);
    const most = Math.max(one(costs.forward, 1), one(costs.backward, 2)) || 1;
    const scale = most < 0.02 ? 2.5 * 10 ** Math.floor(Math.log10(most)) : 1;  // of measured ones
    const cost = (name, max, step, value, set) =>
        this.slider(name, 0, max * scale, step * scale, value, set, say);
    const size = 1e6;  // of an activation, in bytes, if a request says nothing else
    const bytes = one(costs.activation_bytes, 0);
    refresh(this.costs, [
      cost('forward takes', 4, 0.25, one(costs.forward, 1), value => costs.forward = [value]),
      cost(
          'backward takes', 4, 0.25, one(costs.backward, 2),
          value => {
            costs.backward = [value];
            delete costs.input_part;
            delete costs.weight_part;
          }),
      cost('an update takes', 2, 0.1, one(costs.step, 0), value => costs.step = [value]),
      cost('latency of a message', 1, 0.05, costs.latency || 0, value => costs.latency = value),
      cost(
          'bandwidth: an activation takes', 1, 0.05,
          costs.bandwidth && bytes ? bytes / costs.bandwidth : 0,
          value => {
            costs.activation_bytes = [bytes || size];
            costs.weight_bytes ||= [4 * (bytes || size)];
            if (value)
              costs.bandwidth = (bytes || size) / value;
            else
              delete costs.bandwidth;
          }),
      ...Object.keys(costs)
          .filter(key => costs[key]?.length > 1)  // by stage or rank; or a machine's text
          .map(key => this.list(costs, key, key.replaceAll('_', ' '), Array.isArray(costs[key]))),
      this.choice(
          'slow rank',
          ['none', ...Array.from({length: Math.min(this.ranks || 1, 256)}, (_, k) => 'rank ' + k)],
          r.slow_rank >= 0 ? 'rank ' + r.slow_rank : 'none',
          name => {
            if (name === 'none') {
              delete r.slow_rank;
              delete r.slow_factor;
            } else {
              r.slow_rank = +name.slice(5);
              r.slow_factor ||= 1.5;
            }
          }),
      ...(r.slow_rank >= 0 ? [this.slider(
                                 'it is slower by', 1, 4, 0.1, r.slow_factor || 1.5,
                                 value => r.slow_factor = value, value => `${digits(value)}×`)] :
                             [])
    ]);
  }

  /** The fields that a schedule has: sliders and choices first, then what is on or off. */
  shownFields(r, schedule) {
    const isShown = ({key, own}) => key !== 'schedule' && (special[key] !== null || key in r) &&
        (!own || schedule.own.includes(key)) && !(schedule.cyclic && ofReplicas.includes(key)) &&
        !(key === 'steps' && r.endless) && (schedule.has_order || key !== 'endless');
    const isCheck = field => field.kind === 'yes';
    return this.fields.filter(isShown).sort((a, b) => isCheck(a) - isCheck(b));
  }

  fieldControl(r, schedule, field) {
    const {key, own} = field, value = r[key], words = {most: 8, ...field, ...special[key]};
    const name = words.name.replaceAll('-', ' ');
    const set = chosen => {
      if (chosen && chosen !== 'usual')
        r[key] = chosen;
      else
        delete r[key];
      if (key === 'zero' && chosen) r.data_parallel = Math.max(2, r.data_parallel || 1);
      if (key === 'endless') delete r.steps;  // it has any number of them
      if (key === 'stages' || key === 'tied') fitCosts(r);
    };
    if (field.kind === 'yes') return this.check(name, value, set, words.what);
    if (field.kind === 'choice')
      return this.choice(name, ['usual', ...field.values], value || 'usual', set);
    if (field.kind === 'numbers' || field.kind === 'words')
      return this.list(r, key, name, field.kind === 'numbers', words.what);
    const each = key === 'stages' ? Math.max(1, +r.chunks || schedule.chunks) : 1;  // of a rank
    const least = own ? 0 : field.least * each;
    // A slider reaches back to the largest value that it had.
    const had = this.most[key] = Math.max(this.most[key] || 0, value || 0);
    const most = key === 'zero' ? schedule.zero : Math.max(words.most * each, had);
    const say = number => own && !number ? 'usual' : digits(number);
    return this.slider(name, least, most, each, value || least, set, say, words.what);
  }

  /** Another schedule: the request leaves out what it lacks; some comes back with the next one. */
  schedule(name) {
    const {request: r} = this;
    if (!r.schedule) Object.assign(r, r.of);  // the layout of a run, whose plan was shown
    const [was, next] = [r.schedule, name].map(of => this.schedules.find(each => each.name === of));
    if (!next) return;
    if (was?.cyclic) Object.assign(r, this.beforeCyclic);
    for (const {key, own} of this.fields)
      if (own && !next.own.includes(key)) delete r[key];
    if (name === 'data' && r.schedule !== 'data') this.replicas = r.data_parallel;
    if (name !== 'data' && r.schedule === 'data') r.data_parallel = this.replicas || 1;
    delete r.plan;
    r.schedule = name;
    if (next.cyclic) {
      this.beforeCyclic = Object.fromEntries(ofReplicas.map(key => [key, r[key]]));
      for (const key of ofReplicas) delete r[key];
    } else
      r.microbatches ||= 4;
    if ((r.zero || 0) > next.zero) delete r.zero;
    if (!next.has_order) delete r.endless;
    const per = Math.max(1, next.chunks);
    r.stages = Math.ceil((r.stages || 4) / per) * per;
    if (name === 'data') r.data_parallel = Math.max(2, r.data_parallel || 4);
    // One update overlaps nothing; an endless plan has any number.
    if (!r.endless) r.steps = Math.max(r.steps || 1, next.overlaps ? 3 : 1);
    fitCosts(r);
  }

  change(act) {
    delete this.request.title;
    act();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.asked(structuredClone(this.request));
    }, 30);
  }

  choice(name, values, value, set) {
    return el(
        'label', {'data-control': 'one of ' + name}, name,
        el('select', {onchange: event => this.change(() => set(event.target.value))},
           ...values.map(each => el('option', {value: each, selected: each === value}, each))));
  }

  list(object, key, name, isNumbers, what = '') {
    const read = text => isNumbers ? text.split(',').map(Number) : text;
    const short = each => each % 1 ? +Number(each).toPrecision(3) : each;
    const value = [].concat(object[key] ?? []).map(short).join(',');
    const size = Math.max(6, Math.min(value.length, 40));
    const set = text => object[key] = text ? read(text) : undefined;
    const onchange = ({target}) => this.change(() => set(target.value.trim()));
    return el(
        'label', {title: what, 'data-control': 'list of ' + name}, name,
        el('input', {value, placeholder: 'none', size, onchange}));
  }

  check(name, value, set, what) {
    const onchange = ({target}) => this.change(() => set(target.checked));
    return el(
        'label', {className: 'check', title: what, 'data-control': name},
        el('input', {type: 'checkbox', checked: !!value, onchange}), name);
  }

  slider(name, min, max, step, value, set, text = digits, what = '') {
    const oninput = ({target}) => {
      target.parentNode.querySelector('output').textContent = text(+target.value);
      this.change(() => set(+target.value));
    };
    // Its label's first control is the output, so the label gives it no name.
    const input = el('input', {type: 'range', min, max, step, oninput, 'aria-label': name});
    input.value = value;
    return el(
        'label', {title: what, 'data-control': 'size of ' + name},
        el('span', {}, name + ' ', el('output', {}, text(value))), input);
  }
}
