"""A queue's messages: who gets which, and when."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from moto.sqs.exceptions import ReceiptHandleIsInvalid
from moto.sqs.models import Message

from tests.support.patience import HANGING
from tidegate_local.mends import queues
from tidegate_local.mends.queues import Mailbox


def message(name, group=None):
    made = Message(name, name)
    made.group_id = group
    made.mark_sent()
    return made


def mailbox(*messages):
    box = Mailbox()
    for each in messages:
        box.add(each)
    return box


def receive(box, count=10, visibility=30, *, fifo=False, most_receives=None, oldest=0.0):
    return box.receive(count, visibility, fifo=fifo, most_receives=most_receives, oldest=oldest)


def names(messages):
    return [each.id for each in messages]


def test_a_received_message_is_hidden_until_its_time_is_over():
    box = mailbox(message("a"), message("b"))
    first, _ = receive(box, 1)
    assert names(first) == ["a"]
    assert names(receive(box)[0]) == ["b"]
    assert receive(box)[0] == []
    assert box.count() == (0, 2, 0)
    box.change_visibility(first[0].receipt_handle, 0)
    assert names(receive(box)[0]) == ["a"]


def test_deleted_is_gone_and_may_be_deleted_again():
    box = mailbox(message("a"))
    (given,), _ = receive(box)
    box.delete(given.receipt_handle)
    box.delete(given.receipt_handle)
    assert box.count() == (0, 0, 0)
    with pytest.raises(ReceiptHandleIsInvalid):
        box.delete("never seen")


def test_a_group_waits_for_all_of_its_messages_in_flight():
    box = mailbox(message("a1", "a"), message("a2", "a"), message("b1", "b"), message("a3", "a"))
    first, _ = receive(box, 2, fifo=True)
    assert names(first) == ["a1", "a2"]
    assert names(receive(box, fifo=True)[0]) == ["b1"]
    box.delete(first[0].receipt_handle)
    assert receive(box, fifo=True)[0] == []
    box.delete(first[1].receipt_handle)
    assert names(receive(box, fifo=True)[0]) == ["a3"]


def test_a_failed_group_comes_back_whole_and_in_order():
    box = mailbox(*(message(f"a{i}", "a") for i in range(4)))
    first, _ = receive(box, 3, fifo=True)
    for each in reversed(first):
        box.change_visibility(each.receipt_handle, 0)
    assert names(receive(box, fifo=True)[0]) == ["a0", "a1", "a2", "a3"]


def test_a_message_that_was_received_too_often_is_dead_and_frees_its_group():
    box = mailbox(message("a1", "a"), message("a2", "a"))
    for _ in range(2):
        (given,), dead = receive(box, 1, fifo=True, most_receives=2)
        assert (given.id, dead) == ("a1", [])
        box.change_visibility(given.receipt_handle, 0)
    given, dead = receive(box, 1, fifo=True, most_receives=2)
    assert (names(given), names(dead)) == (["a2"], ["a1"])


def test_an_expired_message_is_dropped():
    box = mailbox(message("a"))
    assert receive(box, oldest=float("inf"))[0] == []
    assert box.count() == (0, 0, 0)


def test_deduplication_outlives_the_message():
    box = Mailbox()
    assert not box.is_repeat("", "id")
    assert box.is_repeat("", "id")
    assert not box.is_repeat("other group", "id")


def test_a_receiver_that_waits_is_woken_by_what_comes(monkeypatch):
    """It would not look by itself, nor give up, before this test does."""
    monkeypatch.setattr(queues, "_LOOK_AGAIN", 1_000 * HANGING)
    waits = threading.Event()

    class Told(threading.Condition):
        def wait(self, timeout=None):
            waits.set()  # the lock is still held: nobody can send before the wait has begun
            return super().wait(timeout)

    queue = SimpleNamespace(name="q", dead_letter_queue=None, fifo_queue=False, message_retention_period=86_400)
    box = queues.mailbox(queue)
    box.changed = Told()
    backend = SimpleNamespace(get_queue=lambda name: queue)
    with ThreadPoolExecutor(1) as threads:
        receiver = threads.submit(queues.receive_message, backend, "q", 10, 1_000 * HANGING, 30)
        assert waits.wait(HANGING), "it does not wait"
        box.add(message("a"))
        try:
            assert names(receiver.result(HANGING)) == ["a"]
        finally:
            with box.changed:
                monkeypatch.setattr(queues.time, "monotonic", lambda: float("inf"))
                box.changed.notify_all()


def test_nothing_is_lost_while_others_delete():
    box = Mailbox()
    total = 400
    got = []

    def send():
        for number in range(total):
            box.add(message(str(number)))

    def consume():
        while len(got) < total:
            for each in receive(box)[0]:
                box.delete(each.receipt_handle)
                got.append(each.id)

    threads = [threading.Thread(target=send), threading.Thread(target=consume), threading.Thread(target=consume)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGING)
    assert sorted(got, key=int) == [str(number) for number in range(total)]
