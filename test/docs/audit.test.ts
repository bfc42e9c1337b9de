import { expect, test } from "vitest";
import { ACTIONS, SUBJECTS } from "../../shared/redis/audit/actions.ts";
import { readDocument } from "./blocks.ts";

test("docs/console.md lists the actions of the audit log, with their streams, what they are about, and their events", () => {
  const rows = readDocument("docs/console.md").matchAll(/^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| `(\S+)` \|$/gm);
  expect([...rows].map(([, ...cells]) => cells)).toEqual(
    Object.entries(ACTIONS).map(([action, { stream, about, event }]) => [
      ...[action, stream, SUBJECTS[about], event],
    ]),
  );
});
