import { expect, test } from "vitest";
import type { z } from "zod";
import { FoundCallView } from "../../shared/console/calls.ts";
import { FailedCallView } from "../../shared/console/failed.ts";
import { JobView } from "../../shared/console/jobs.ts";
import { PaymentView } from "../../shared/console/payment-view.ts";
import { RejectedView } from "../../shared/console/rejected.ts";
import { readDocument } from "./blocks.ts";

/** The commands that print a view without changes. */
const LISTED: readonly [command: string, view: z.ZodObject][] = [
  ["calls list", FoundCallView],
  ["failed list", FailedCallView],
  ["jobs list", JobView],
  ["rejected list", RejectedView],
  ["payments list", PaymentView],
];

test.each(LISTED)(
  "docs/configuration.md names every member that postern %s prints with -o json",
  (command, view) => {
    const row = readDocument("docs/configuration.md")
      .split("\n")
      .find((line) => line.startsWith(`| \`${command}\``));
    const members = row?.split("|")[3]?.replaceAll(/\(.*?\)|;.*/g, "") ?? "";
    const named = [...members.matchAll(/`(\w+)`/g)].map(([, name]) => name);
    expect(named.toSorted()).toEqual(Object.keys(view.shape).toSorted());
  },
);
