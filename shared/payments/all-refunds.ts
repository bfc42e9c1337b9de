import { askAll, askOwn } from "../redis/merge.ts";
import type { Partitions } from "../redis/partition.ts";
import { routeOfPayer } from "./payment.ts";
import { createRefunds, type NewExport, type Place, type RefundExport, type Refunds } from "./refunds.ts";

export type AllRefunds = ReturnType<typeof createAllRefunds>;

/**
 * Exports and closes refunds in all partitions. An export has one part in each partition that holds some of its cases. Each
 * part is made in one step, and never grows.
 *
 * Before an export is shown to an operator, it is sealed in the partitions without a part. After that, a late request can
 * make no part there. Otherwise the export could grow after the operator has paid the refunds that were shown. If the process
 * dies after some partitions have made their parts, the cases of the others stay due, and another export takes them.
 */
export function createAllRefunds(partitions: Partitions) {
  const each = partitions.map(createRefunds);

  /**
   * Reads an export, with the rows of its parts in the order of the partitions. Undefined if it never had a part, or all its
   * parts have expired.
   */
  async function find(id: string): Promise<RefundExport | undefined> {
    const found = await askAll(each, (refunds) => refunds.find(id));
    if (found.every((part) => part === undefined)) return undefined;
    if (each.all.length === 1) return found[0];
    const parts = await askAll(each, async (refunds, index) => found[index] ?? refunds.seal(id));
    const [first, ...others] = parts.filter((part) => part !== undefined);
    return first && { ...first, rows: [first, ...others].flatMap(({ rows }) => rows) };
  }

  return {
    find,

    /** Exports refunds, in one step for each partition. `moved` lists the calls whose refund this request has exported. */
    async export(made: NewExport): Promise<(RefundExport & { moved: string[] }) | undefined> {
      const ids = made.cases.map(({ payment }) => payment.id);
      const parts = await askOwn(each, ids, async (refunds, own) => {
        const cases = made.cases.filter(({ payment }) => own.includes(payment.id));
        return [await refunds.export({ ...made, cases })];
      });
      const moved = parts.flat().flatMap((part) => (part?.isNew ? part.rows.map(({ call }) => call) : []));
      const found = await find(made.id);
      return found && { ...found, moved };
    },

    /**
     * Reads the id of the call whose refund case this transfer has closed. Such a call was paid by the transfer's recipient,
     * so only the recipient's partition is read.
     */
    closedBy: (network: string, transfer: Place & { to: string }): Promise<string | undefined> =>
      each.of(routeOfPayer(transfer.to)).closedBy(network, transfer),

    close: (...[payment, ...by]: Parameters<Refunds["close"]>) => each.of(payment.id).close(payment, ...by),

    withdraw: (...[payment, act]: Parameters<Refunds["withdraw"]>) =>
      each.of(payment.id).withdraw(payment, act),
  };
}
