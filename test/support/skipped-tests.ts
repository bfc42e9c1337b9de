import type { Reporter, TestCase, TestModule, Vitest } from "vitest/node";

/** Names every skipped test in the last lines of a run, with the reason, which says how to enable it. */
export class SkippedTests implements Reporter {
  #vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const namesByReason = new Map<string, string[]>();
    for (const test of modules.flatMap((module) => [...module.children.allTests("skipped")])) {
      const reason = reasonOf(test);
      // Vitest also marks tests as skipped that `-t` does not select.
      if (reason === undefined && this.#vitest?.config.testNamePattern !== undefined) continue;
      const names = namesByReason.get(reason ?? "No reason is declared.") ?? [];
      names.push(`  ${test.module.relativeModuleId} > ${test.fullName}`);
      namesByReason.set(reason ?? "No reason is declared.", names);
    }
    for (const [reason, names] of namesByReason)
      this.#vitest?.logger.log([`Skipped: ${names.length}. ${reason}`, ...names, ""].join("\n"));
  }
}

/** Returns the reason that `needs` or the test itself has given. */
function reasonOf(test: TestCase): string | undefined {
  const result = test.result();
  return test.meta().skipReason ?? (result.state === "skipped" ? result.note : undefined);
}
