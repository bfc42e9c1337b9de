import { expect, it } from "vitest";
import type { Occasion } from "../../../fixtures/senders/sender.ts";
import { senders } from "../../../fixtures/senders/senders.ts";

const decoys = senders.flatMap((sender) =>
  (sender.decoys ?? []).map((decoy) => ({ sender, decoy, of: sender.name, name: decoy.name })),
);

it("no two senders have the same name", () => {
  const names = senders.map(({ name }) => name);
  expect(names).toEqual([...new Set(names)]);
});

it.each(decoys)(
  "the decoy of $of named $name differs from every request that $of would send",
  ({ sender, decoy }) => {
    const on: Occasion = { keys: [sender.key("current")], at: new Date(), id: "msg_1" };
    expect(decoy.sign(sender.sample, on)).not.toEqual(sender.sign(sender.sample, on));
  },
);
