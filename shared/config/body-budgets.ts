import { totalmem } from "node:os";
import { isTable } from "./fields.ts";
import { keyOf } from "./problem.ts";

const MIB = 1024 * 1024;

/**
 * Default of each body budget, if the memory is large enough for it. A body budget limits the bytes of all bodies that
 * a process holds at the same time.
 */
export const BODY_BUDGET_BYTES = 256 * MIB;
/**
 * Minimum of a default budget. A process with less could accept almost no body. If the minimum does not fit the
 * memory, a warning says so.
 */
const MIN_BUDGET_BYTES = 8 * MIB;
/** Memory of a process without bodies. */
const BASE_BYTES = 160 * MIB;

/** Name of the table that has a process's budget, and maximum memory for each byte of the budget (docs/sizing.md). */
const BUDGETS = {
  gateway: { table: "http", perByte: 2.5 },
  producer: { table: "producer", perByte: 1.375 },
} as const;
type Budget = (typeof BUDGETS)[keyof typeof BUDGETS];
type Budgets = Record<Budget["table"], { body_budget_bytes: number }>;

function budgetOf(reader: string | undefined): Budget | undefined {
  return reader === "gateway" || reader === "producer" ? BUDGETS[reader] : undefined;
}

/** Returns the memory for this process: the limit of its container, or that of the machine. */
function memoryBytes(): number {
  return Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
}

function fittingBytes({ perByte }: Budget): number {
  return Math.floor((memoryBytes() - BASE_BYTES) / perByte);
}

/** Sets a smaller budget in `postern.toml` if the file has none and the default does not fit the memory. */
export function withFittingBudget(table: unknown, reader: string | undefined): unknown {
  const budget = budgetOf(reader);
  if (budget === undefined || !isTable(table)) return table;
  const own = table[budget.table] ?? {};
  if (!isTable(own) || own["body_budget_bytes"] !== undefined) return table;
  const fitting = fittingBytes(budget);
  if (fitting >= BODY_BUDGET_BYTES) return table;
  return { ...table, [budget.table]: { body_budget_bytes: Math.max(fitting, MIN_BUDGET_BYTES), ...own } };
}

/** Warns about a budget that does not fit the memory, because the process may be killed while it holds bodies. */
export function budgetWarnings(file: string, postern: Budgets, reader: string | undefined): string[] {
  const budget = budgetOf(reader);
  if (budget === undefined) return [];
  const bytes = postern[budget.table].body_budget_bytes;
  const fitting = fittingBytes(budget);
  if (bytes <= fitting) return [];
  const needed = Math.ceil((BASE_BYTES + bytes * budget.perByte) / MIB);
  const lower = fitting >= MIN_BUDGET_BYTES ? `set it to at most ${fitting}, or ` : "";
  const key = keyOf([budget.table, "body_budget_bytes"], postern);
  return [
    `${file}: ${key}: ${bytes} bytes need ${needed} MiB of memory, and this process has ${Math.floor(memoryBytes() / MIB)} MiB: ${lower}give it more memory`,
  ];
}
