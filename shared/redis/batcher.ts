type Batch<Item, Answer> = { items: Item[]; answers: Promise<readonly Answer[]>; send(): void };

/**
 * Asks for many with one command: what is asked for singly within one turn of the event loop is gathered and asked for
 * together, up to BATCH_MAX of them. `ask` answers in the order of its items; when it fails, it fails for all of them.
 */
export function createBatcher<Item, Answer>(ask: (items: readonly Item[]) => Promise<readonly Answer[]>) {
  let open: Batch<Item, Answer> | undefined;

  function openBatch(): Batch<Item, Answer> {
    const items: Item[] = [];
    let send!: () => void;
    const sent = new Promise<void>((resolve) => {
      send = resolve;
    });
    const batch = { items, send, answers: sent.then(() => ask(items)) };
    setImmediate(() => close(batch));
    return batch;
  }

  function close(batch: Batch<Item, Answer>): void {
    if (open === batch) open = undefined;
    batch.send();
  }

  return async (item: Item): Promise<Answer> => {
    open ??= openBatch();
    const batch = open;
    const place = batch.items.push(item) - 1;
    if (batch.items.length === BATCH_MAX) close(batch);
    return (await batch.answers)[place] as Answer;
  };
}

/**
 * Commands, or askings of one command, that leave together at most. Many replies arrive at once, and what they cause
 * would leave at once: without a bound this process and Redis would take turns to work instead of working side by side.
 */
export const BATCH_MAX = 16;
