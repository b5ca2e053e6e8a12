import texts from '../recorded/readable.json';
import { age, readable } from './quantity';

test('readings are written as on the pages of the evaluator', () => {
  const written = (texts as [string, number, number | null, string][]).map(
    ([metric, value, target, text]) => [
      metric,
      value,
      target,
      text,
      readable(metric, value, target),
    ]
  );
  expect(written.length).toBeGreaterThan(200);
  expect(written.filter(([, , , text, own]) => text !== own)).toEqual([]);
});

test('infinities keep their text', () => {
  expect(readable('load1', '+Inf')).toBe('+Inf');
});

test.each([
  [null, 'never'],
  [0, '0.0 s'],
  [9.96, '10.0 s'],
  [10, '10 s'],
  [119.9, '119 s'],
  [120, '2 min'],
  [7200, '2 h'],
  [172800, '2 d'],
])('%s seconds are %s', (seconds, text) => {
  expect(age(seconds)).toBe(text);
});
