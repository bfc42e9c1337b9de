import axe from "axe-core";
import type { Page } from "playwright-core";

/**
 * Returns the violations that axe-core finds on a page, as `impact rule: element`. The page's Content-Security-Policy
 * does not apply to a script of the debugger.
 */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as {
    violations: { impact: string; id: string; nodes: { html: string }[] }[];
  };
  return violations.map(({ impact, id, nodes }) => `${impact} ${id}: ${nodes[0]?.html.slice(0, 200)}`);
}
