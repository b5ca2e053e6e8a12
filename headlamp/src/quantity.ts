/**
 * Writes readings with their units, as the evaluator's pages do (plimsoll/quantity.py). The unit is the end of the metric's name.
 *
 * recorded/readable.json has texts of the Python code, which a test compares.
 */

/** Significant digits, and those that tell all doubles apart. */
const DIGITS = 3;
const MOST_DIGITS = 17;
/** Numbers from here on are written with an exponent. */
const LONGEST = 1e15;
const SMALLEST = 1e-4;
/** Three years: more seconds are a time, not a duration. */
const MOST_SECONDS = 1e8;
const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const HERTZ = ['Hz', 'kHz', 'MHz', 'GHz'];
const SYMBOLS = new Map([
  ['celsius', '°C'],
  ['percent', '%'],
  ['volts', 'V'],
  ['amperes', 'A'],
  ['watts', 'W'],
  ['watt', 'W'],
  ['joules', 'J'],
  ['rpm', 'rpm'],
]);

/**
 * Returns a reading of a metric, with three significant digits or, if it differs from `target`, as many as show that.
 * Text, such as `+Inf`, is returned as it is.
 */
export function readable(metric: string, value: number | string, target?: number | null): string {
  if (typeof value === 'string') {
    return value;
  }
  let digits = DIGITS;
  let text = written(metric, value, digits);
  if (typeof target !== 'number' || value === target) {
    return text;
  }
  while (digits < MOST_DIGITS && text === written(metric, target, digits)) {
    digits += 1;
    text = written(metric, value, digits);
  }
  return text;
}

/** Returns a duration in seconds, short, such as an age: `4.2 s`, `17 min`. */
export function age(seconds: number | null): string {
  if (seconds === null) {
    return 'never';
  }
  if (seconds < 10) {
    return `${fixed(seconds, 1)} s`;
  }
  if (seconds < 120) {
    return `${Math.floor(seconds)} s`;
  }
  if (seconds < 7200) {
    return `${Math.floor(seconds / 60)} min`;
  }
  if (seconds < 172800) {
    return `${Math.floor(seconds / 3600)} h`;
  }
  return `${Math.floor(seconds / 86400)} d`;
}

function written(metric: string, value: number, digits: number): string {
  if (!Number.isFinite(value)) {
    return number(value, digits);
  }
  const name = metric.replace(/_total$/, '');
  const perSecond = name.endsWith('_per_second') ? '/s' : '';
  const unit =
    name
      .replace(/_per_second$/, '')
      .split('_')
      .pop() ?? '';
  switch (unit) {
    case 'bytes':
      return scaled(value, 1024, BINARY, digits) + perSecond;
    case 'hertz':
      return scaled(value, 1000, HERTZ, digits);
    case 'seconds':
      return !perSecond && Math.abs(value) < MOST_SECONDS
        ? duration(value, digits)
        : number(value, digits);
    case 'cores': {
      const text = number(value, digits);
      return text === '1' ? '1 core' : `${text} cores`;
    }
    default: {
      const symbol = SYMBOLS.get(unit);
      const text = number(value, digits);
      return symbol ? `${text} ${symbol}${perSecond}` : text;
    }
  }
}

/** Returns a value in the largest unit of which it has one. */
function scaled(value: number, base: number, units: string[], digits: number): string {
  let amount = value;
  let power = 0;
  while (power + 1 < units.length && Number(fixed(Math.abs(amount), 6)) >= base) {
    amount /= base;
    power += 1;
  }
  return `${number(amount, digits)} ${units[power]}`;
}

/** Returns a duration: 250 ms, 12.5 s, 1m30s, 2d3h. */
function duration(value: number, digits: number): string {
  if (value < 0) {
    return `-${duration(-value, digits)}`;
  }
  if (value > 0 && value < 1) {
    return `${number(value * 1000, digits)} ms`;
  }
  if (value < 60) {
    return `${number(value, digits)} s`;
  }
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(value)));
  const rounded = Number(fixed(value, decimals));
  const parts: [number, string][] = [
    [Math.floor(rounded / 86400), 'd'],
    [Math.floor((rounded % 86400) / 3600), 'h'],
    [Math.floor((rounded % 3600) / 60), 'm'],
    [Number((rounded % 60).toPrecision(6)), 's'],
  ];
  return parts.map(([amount, unit]) => (amount ? `${amount}${unit}` : '')).join('');
}

/** Returns a number without an exponent, if it is between 0.0001 and 10^15; integers have all their digits. */
function number(value: number, digits: number): string {
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
  }
  const magnitude = Math.abs(value);
  if (magnitude >= LONGEST || (magnitude > 0 && magnitude < SMALLEST)) {
    return exponential(value, digits);
  }
  if (Number.isInteger(value)) {
    return String(value);
  }
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(magnitude)));
  return withoutZeros(fixed(value, decimals));
}

/** Returns a number as `%g` of C writes it: the exponent has at least two digits. */
function exponential(value: number, digits: number): string {
  const [mantissa = '', exponent = ''] = value.toExponential(digits - 1).split('e');
  const power = Number(exponent);
  if (power >= -4 && power < digits) {
    return withoutZeros(fixed(value, digits - 1 - power));
  }
  const sign = power < 0 ? '-' : '+';
  return `${withoutZeros(mantissa)}e${sign}${String(Math.abs(power)).padStart(2, '0')}`;
}

/** Returns a number with so many decimals; ties go to the even digit, as in Python. toFixed() takes them away from 0. */
function fixed(value: number, decimals: number): string {
  const exact = value.toFixed(100);
  const kept = exact.slice(0, exact.indexOf('.') + 1 + decimals);
  const tie = /^50*$/.test(exact.slice(kept.length));
  return tie && /[02468]\.?$/.test(kept) ? kept.replace(/\.$/, '') : value.toFixed(decimals);
}

function withoutZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
