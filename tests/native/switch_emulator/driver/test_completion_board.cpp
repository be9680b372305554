#include <doctest/doctest.h>
#include <poll.h>

#include <thread>

#include "switch_emulator/driver/completion_board.hpp"

using namespace innet;
using namespace innet::driver;
using namespace std::chrono_literals;

namespace {

void end(CompletionBoard& board, OperationId id) {
    std::vector<OperationCompletion> completions{{id, OperationStatus::kAborted, "why", {}}};
    board.post(completions);
    CHECK(completions.empty());
}

bool readable(const CompletionQueue& queue) {
    pollfd polled{queue.event_fd(), POLLIN, 0};
    return ::poll(&polled, 1, 0) == 1;
}

}  // namespace

TEST_CASE("an ended operation is waited for once") {
    CompletionBoard board;
    CHECK(!board.wait(1, 0s));
    end(board, 1);
    CHECK(board.done(1));
    CHECK(!board.done(2));
    CHECK(!board.wait(2, 0s));
    const auto ended = board.wait(1, 0s);
    REQUIRE(ended);
    CHECK(ended->id == 1);
    CHECK(ended->status == OperationStatus::kAborted);
    CHECK(ended->detail == "why");
    CHECK(!board.done(1));
    CHECK(!board.wait(1, 0s));
}

TEST_CASE("a pending wait ends with the node") {
    CompletionBoard board;
    std::optional<OperationCompletion> ended;
    std::thread waiter([&] { ended = board.wait(1, 1min); });
    end(board, 2);
    end(board, 1);
    waiter.join();
    REQUIRE(ended);
    CHECK(ended->id == 1);
}

TEST_CASE("a queue accepts completions before and after their operation's end") {
    CompletionBoard board;
    const auto queue = std::make_shared<CompletionQueue>();
    const auto other = std::make_shared<CompletionQueue>();
    board.hand_over(3, other);
    SUBCASE("before") {
        board.hand_over(1, queue);
        CHECK(!readable(*queue));
        CHECK(queue->take().empty());
        end(board, 1);
    }
    SUBCASE("after") {
        end(board, 1);
        CHECK(!readable(*queue));
        board.hand_over(1, queue);
    }
    end(board, 2);
    CHECK(readable(*queue));
    CHECK(!board.wait(1, 0s));
    const auto taken = queue->take();
    REQUIRE(taken.size() == 1);
    CHECK(taken[0].id == 1);
    CHECK(!readable(*queue));
    CHECK(queue->take().empty());
    CHECK(board.wait(2, 0s));
    end(board, 3);
    CHECK(!readable(*queue));
    CHECK(other->take().size() == 1);
}

TEST_CASE("a queue is readable until all completions are taken, while further ones arrive") {
    CompletionBoard board;
    const auto queue = std::make_shared<CompletionQueue>();
    for (OperationId id = 1; id <= 3; ++id) {
        board.hand_over(id, queue);
        end(board, id);
    }
    CHECK(readable(*queue));
    CHECK(queue->take().size() == 3);
    CHECK(!readable(*queue));
    board.hand_over(4, queue);
    end(board, 4);
    CHECK(readable(*queue));
}

TEST_CASE("a batched completion is delivered with the next one or at a flush") {
    CompletionBoard board;
    const auto queue = std::make_shared<CompletionQueue>();
    SUBCASE("with the next one") {
        board.hand_over_batched(1, queue);
        end(board, 1);
        CHECK(!readable(*queue));
        board.hand_over(2, queue);
        end(board, 2);
        CHECK(readable(*queue));
        CHECK(queue->take().size() == 2);
        CHECK(!readable(*queue));
        board.hand_over(3, queue);
        end(board, 3);
    }
    SUBCASE("when it is flushed before its end") {
        board.hand_over_batched(1, queue);
        board.flush(1, *queue);
        CHECK(!readable(*queue));
        end(board, 1);
    }
    SUBCASE("when it is flushed after its end") {
        end(board, 1);
        board.hand_over_batched(1, queue);
        CHECK(!readable(*queue));
        board.flush(1, *queue);
    }
    CHECK(readable(*queue));
    CHECK(queue->take().size() == 1);
    board.flush(1, *queue);
    CHECK(!readable(*queue));
}

TEST_CASE("completions for a closed queue are discarded") {
    CompletionBoard board;
    board.hand_over(1, std::make_shared<CompletionQueue>());
    end(board, 1);
    CHECK(board.take_discarded() == std::vector<OperationId>{1});
}

TEST_CASE("a discarded result is not kept, before or after its end") {
    CompletionBoard board;
    SUBCASE("before") {
        board.discard(1);
        CHECK(board.take_discarded().empty());
        end(board, 1);
    }
    SUBCASE("after") {
        end(board, 1);
        board.discard(1);
    }
    end(board, 2);
    CHECK(!board.done(1));
    CHECK(board.take_discarded() == std::vector<OperationId>{1});
    CHECK(board.take_discarded().empty());
    CHECK(board.wait(2, 0s));
}

TEST_CASE("times are recorded once enabled, and read once") {
    CompletionBoard board;
    const auto end_at = [&](OperationId id, int ended) {
        std::vector<OperationCompletion> completions{{id, OperationStatus::kDone, "", {}}};
        completions[0].times.ended = TimePoint(Duration(ended));
        board.post(completions);
    };
    end_at(1, 10);
    CHECK(board.take_times().empty());
    board.keep_times();
    end_at(2, 20);
    end_at(3, 30);
    const auto times = board.take_times();
    REQUIRE(times.size() == 2);
    CHECK(times[0].first == 2);
    CHECK(times[1].second.ended == TimePoint(Duration(30)));
    CHECK(board.take_times().empty());
}
