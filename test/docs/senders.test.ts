import { expect, test } from "vitest";
import { PRESETS } from "../../shared/webhook-auth/presets/presets.ts";
import { GROUPS, sendersPage } from "./senders.ts";

test("docs/senders.md has the description of every preset; -u writes it again", async () => {
  expect(GROUPS.flatMap(([, presets]) => Object.keys(presets)).sort()).toEqual(Object.keys(PRESETS).sort());
  await expect(sendersPage()).toMatchFileSnapshot("../../docs/senders.md");
});
