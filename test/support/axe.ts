import axe from "axe-core";
import type { Page } from "playwright-core";

/** What axe-core finds wrong with what a page shows, as `impact rule: element`. The page's policy does not hold for a debugger's script. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as {
    violations: { impact: string; id: string; nodes: { html: string }[] }[];
  };
  return violations.map(({ impact, id, nodes }) => `${impact} ${id}: ${nodes[0]?.html.slice(0, 200)}`);
}
