import { expect, test } from "vitest";
import { leavesOf } from "../../../services/cli/output-options.ts";
import { buildProgram } from "../../../services/cli/program.ts";
import type { Surroundings } from "../../../services/cli/program-deps.ts";
import { ACTIONS, type AuditAction } from "../../../shared/redis/audit/actions.ts";

/** Audit lines that a command writes. */
const LINES: Readonly<Record<string, readonly AuditAction[]>> = {
  "calls show": ["read_body", "read_result"],
  "calls replay": ["replay_delivered"],
  "calls forget": ["forget"],
  "calls run-now": ["run_now"],
  "failed show": ["read_body"],
  "failed replay": ["begin_replay", "replay"],
  "failed discard": ["begin_discard", "discard"],
  "jobs pause": ["pause"],
  "jobs resume": ["resume"],
  "jobs run-delayed": ["run_delayed"],
  "rejected show": ["read_rejected"],
  "endpoints disable": ["disable"],
  "endpoints hold": ["hold"],
  "endpoints enable": ["enable"],
  "endpoints open": ["open"],
  "endpoints close": ["close"],
  reload: ["reload"],
  "redis remove-node": ["remove_node"],
  "redis adopt": ["adopt"],
  "payments resolve": ["settle", "void", "begin_acknowledge", "acknowledge", "drop"],
  "payments reconcile": ["reconcile"],
  "refunds export": ["refund"],
  "refunds check": ["begin_refund_check", "close_refund"],
  "refunds withdraw": ["withdraw"],
  "payments audit": ["begin_audit"],
};

/** Commands that change nothing in a deployment and read no body: they list, act as a client, or work on files. */
const WITHOUT = [
  ...[
    "callbacks show-secret",
    "calls list",
    "completion",
    "config check",
    "endpoints list",
    "failed list",
    "init",
  ],
  ...["jobs list", "jobs show", "pay", "refunds list", "refunds report", "refunds show"],
  ...[
    "openapi",
    "payments list",
    "payments show",
    "payments list-spent",
    "quote",
    "rates list",
    "receipt verify",
    "redis-acl",
  ],
  ...["rejected list", "result", "send", "status", "tail"],
];

const SERVICES = ["webhooks", "x402", "pricing", "producer", "runner", "operator", "dev", "devnet"];

test("every command is declared either to write audit lines or to need none", () => {
  const program = buildProgram({ version: "0", env: {} } as Surroundings);
  const names = leavesOf(program).map((command) =>
    command.parent === program ? command.name() : `${command.parent?.name()} ${command.name()}`,
  );
  expect(names.toSorted()).toEqual([...Object.keys(LINES), ...WITHOUT, ...SERVICES].toSorted());
});

test("every audited action belongs to a command, except those of sessions, of the console's runs and of its tests", () => {
  const named = new Set(Object.values(LINES).flat());
  const others = Object.keys(ACTIONS).filter((action) => !named.has(action as AuditAction));
  expect(others).toEqual(["test", "cancel_run", "resume_run", "sign_in", "sign_out"]);
});
