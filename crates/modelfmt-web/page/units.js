// Formats numbers for people.

const integers = new Intl.NumberFormat("en-US");

export function count(n) {
  return integers.format(n);
}

export function counted(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// Formats bytes in powers of 1024, like the program.
export function size(nbytes) {
  if (nbytes < 1024) return nbytes === 1 ? "1 byte" : `${count(nbytes)} bytes`;
  let [value, unit] = [nbytes / 1024, 0];
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${units[unit]}`;
}

// Formats a number like 7.24 B, as in names of models.
export function short(n) {
  for (const [limit, unit] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]]) {
    if (n >= limit) return `${(n / limit).toPrecision(3)} ${unit}`;
  }
  return String(n);
}

export function shape(dims) {
  return dims.length === 0 ? "scalar" : dims.join(" × ");
}

// Formats a number with at most six digits.
export function number(value) {
  if (value === null || Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? count(value) : String(Number(value.toPrecision(6)));
}
