// A squarified treemap (Bruls, Huizing, van Wijk 2000): areas in proportion to sizes, as close to squares as
// possible.

// Lays out `items`, numbers whose `sizes` are not 0, in a rectangle, and calls `place(item, x, y, width,
// height)` for each. Large items come first; equal ones keep their order.
export function squarify(items, sizes, x, y, width, height, place) {
  const sorted = items.slice().sort((a, b) => sizes[b] - sizes[a] || a - b);
  let rest = 0;
  for (const item of sorted) rest += sizes[item];
  for (let from = 0; from < sorted.length; ) {
    // A row along the shorter side takes more items as long as that does not make its most elongated item
    // longer.
    const short = Math.max(Math.min(width, height), Number.MIN_VALUE);
    const scale = (width * height) / rest;
    let [to, sum, worst] = [from, 0, Infinity];
    const most = sizes[sorted[from]];
    while (to < sorted.length) {
      const size = sizes[sorted[to]];
      const thick = ((sum + size) * scale) / short;
      const next = Math.max((most * scale) / (thick * thick), (thick * thick) / (size * scale));
      if (next > worst) break;
      [worst, sum, to] = [next, sum + size, to + 1];
    }
    // Sizes that floating point cannot distinguish from zero form one row.
    if (to === from) to = sorted.length;
    const isUpright = width >= height;
    const room = isUpright ? width : height;
    const thick = to === sorted.length ? room : Math.min(room, (sum * scale) / short);
    let along = 0;
    for (; from < to; from++) {
      const long = sum > 0 ? (sizes[sorted[from]] / sum) * short : 0;
      if (isUpright) place(sorted[from], x, y + along, thick, long);
      else place(sorted[from], x + along, y, long, thick);
      along += long;
    }
    rest -= sum;
    if (isUpright) [x, width] = [x + thick, width - thick];
    else [y, height] = [y + thick, height - thick];
  }
}

// Returns the position of each tensor, grouped: { x, y, width, height } as arrays, and the same for `groups`.
export function layOut(sizes, groupOf, groupCount, width, height) {
  const members = Array.from({ length: groupCount }, () => []);
  const sums = new Float64Array(groupCount);
  sizes.forEach((size, i) => {
    if (!(size > 0)) return;
    members[groupOf[i]].push(i);
    sums[groupOf[i]] += size;
  });
  const [cells, groups] = [rectangles(sizes.length), rectangles(groupCount)];
  const filled = Array.from(members.keys()).filter((group) => sums[group] > 0);
  squarify(filled, sums, 0, 0, width, height, (group, ...place) => {
    set(groups, group, ...place);
    squarify(members[group], sizes, ...place, (item, ...own) => set(cells, item, ...own));
  });
  return { cells, groups, members, drawn: filled };
}

function rectangles(count) {
  return { x: new Float32Array(count), y: new Float32Array(count), width: new Float32Array(count), height: new Float32Array(count) };
}

function set(all, i, x, y, width, height) {
  all.x[i] = x;
  all.y[i] = y;
  all.width[i] = width;
  all.height[i] = height;
}
