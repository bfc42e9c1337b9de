import { expect, test } from "vitest";
import { createMetrics } from "../../../../shared/platform/metrics/metrics.ts";

test("concurrent scrapes share one reading, and the next scrape reads again", async () => {
  const metrics = createMetrics();
  const readings = metrics.gauge("readings", "How often the gauges were set");
  let count = 0;
  const ends: (() => void)[] = [];
  metrics.beforeScrape(async () => {
    count += 1;
    readings.set(count);
    await new Promise<void>((resolve) => ends.push(resolve));
  });
  const scrape = async () => /^readings (\d+)$/m.exec(await metrics.text())?.[1];
  for (const reading of ["1", "2"]) {
    const together = [scrape(), scrape(), scrape()];
    expect(ends).toHaveLength(1);
    ends.pop()?.();
    expect(await Promise.all(together)).toEqual([reading, reading, reading]);
  }
});
