#include "switch_emulator/forwarding/request_queue.hpp"

namespace innet::forwarding {

void RequestQueue::add(Request request, wire::ByteView name, wire::ByteView argument) {
    request.text_offset = waiting_.text.size();
    request.name_size = name.size();
    request.argument_size = argument.size();
    waiting_.text.insert(waiting_.text.end(), name.begin(), name.end());
    waiting_.text.insert(waiting_.text.end(), argument.begin(), argument.end());
    waiting_.requests.push_back(std::move(request));
}

}  // namespace innet::forwarding
